package mongox

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"
)

// transientCodes are the server's codes after which the same operation may
// succeed later: the retryable codes of the driver specifications, and those of a
// server that is overloaded, elects, starts or stops.
// https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml
var transientCodes = []int{
	6,     // HostUnreachable
	7,     // HostNotFound
	24,    // LockTimeout
	46,    // LockBusy
	50,    // MaxTimeMSExpired
	63,    // StaleShardVersion
	64,    // WriteConcernTimeout (formerly WriteConcernFailed)
	70,    // ShardNotFound
	89,    // NetworkTimeout
	91,    // ShutdownInProgress
	100,   // UnsatisfiableWriteConcern
	112,   // WriteConflict
	133,   // FailedToSatisfyReadPreference
	134,   // ReadConcernMajorityNotAvailableYet
	149,   // ClientDisconnect
	150,   // StaleEpoch
	189,   // PrimarySteppedDown
	202,   // NetworkInterfaceExceededTimeLimit
	225,   // TransactionTooOld
	234,   // RetryChangeStream
	251,   // NoSuchTransaction
	262,   // ExceededTimeLimit
	290,   // TransactionExceededLifetimeLimitSeconds
	317,   // ConnectionPoolExpired
	358,   // InternalTransactionNotSupported
	365,   // TemporarilyUnavailable
	384,   // ConnectionError
	402,   // ResourceYield
	462,   // IngressRequestRateLimitExceeded
	9001,  // SocketException
	10058, // LegacyNotPrimary
	10107, // NotWritablePrimary
	11600, // InterruptedAtShutdown
	11601, // Interrupted
	11602, // InterruptedDueToReplStateChange
	13388, // StaleConfig
	13435, // NotPrimaryNoSecondaryOk
	13436, // NotPrimaryOrSecondary
	16500, // Azure Cosmos DB: request rate is too large
}

// transientLabels are the error labels of the server and the driver that allow
// the operation again.
var transientLabels = []string{
	"NetworkError",
	"RetryableError",
	"RetryableWriteError",
	"TransientTransactionError",
	"UnknownTransactionCommitResult",
	"ResumableChangeStreamError",
	"SystemOverloadedError",
	"ExceededTimeLimitError",
	"NetworkTimeoutError",
}

// Transient tells whether the same operation may succeed later: the network, an
// election, an overloaded server, a write conflict, a timeout. A cancelled
// context is not transient, one whose deadline has passed is. Of a bulk write it
// says so only where every error in it is transient: an operation that failed for
// good fails again.
func Transient(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	var bulk mongo.BulkWriteException
	if errors.As(err, &bulk) {
		return transientBulk(bulk)
	}
	var write mongo.WriteException
	if errors.As(err, &write) {
		return transientWrite(write)
	}
	var server mongo.ServerError
	if errors.As(err, &server) {
		return transientServer(server)
	}
	var selection topology.ServerSelectionError
	var connection topology.ConnectionError
	var queue topology.WaitQueueTimeoutError
	var network net.Error
	return errors.As(err, &selection) || errors.As(err, &connection) || errors.As(err, &queue) ||
		errors.As(err, &network) || mongo.IsTimeout(err) || mongo.IsNetworkError(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func transientServer(err mongo.ServerError) bool {
	for _, label := range transientLabels {
		if err.HasErrorLabel(label) {
			return true
		}
	}
	for _, code := range transientCodes {
		if err.HasErrorCode(code) {
			return true
		}
	}
	return mongo.IsTimeout(err) || mongo.IsNetworkError(err)
}

func transientWrite(err mongo.WriteException) bool {
	for _, we := range err.WriteErrors {
		if !transientServer(we) {
			return false
		}
	}
	return len(err.WriteErrors) > 0 || transientServer(err)
}

func transientBulk(err mongo.BulkWriteException) bool {
	for _, we := range err.WriteErrors {
		if !transientServer(we) {
			return false
		}
	}
	return len(err.WriteErrors) > 0 || transientServer(err)
}

// codeDuplicateKey is the server's DuplicateKey.
const codeDuplicateKey = 11000

// DuplicateKeyOnID tells whether err is a duplicate key in the index of _id, and
// in no other: the document is there already. A duplicate in another unique index
// is a conflict between two documents.
func DuplicateKeyOnID(err error) bool {
	var bulk mongo.BulkWriteException
	if errors.As(err, &bulk) {
		if len(bulk.WriteErrors) == 0 {
			return false
		}
		for _, we := range bulk.WriteErrors {
			if !duplicateOnID(we.WriteError) {
				return false
			}
		}
		return true
	}
	var write mongo.WriteException
	if errors.As(err, &write) {
		for _, we := range write.WriteErrors {
			if !duplicateOnID(we) {
				return false
			}
		}
		return len(write.WriteErrors) > 0
	}
	var single mongo.WriteError
	if errors.As(err, &single) {
		return duplicateOnID(single)
	}
	var command mongo.CommandError
	return errors.As(err, &command) && command.Code == codeDuplicateKey && namesIDIndex(command.Message)
}

func duplicateOnID(err mongo.WriteError) bool {
	if err.Code != codeDuplicateKey {
		return false
	}
	// keyPattern stands in the reply since 4.2; the message is for what lacks it.
	if pattern, e := err.Raw.LookupErr("keyPattern"); e == nil {
		if doc, ok := pattern.DocumentOK(); ok {
			elements, e := doc.Elements()
			return e == nil && len(elements) == 1 && elements[0].Key() == "_id"
		}
	}
	return namesIDIndex(err.Message)
}

func namesIDIndex(message string) bool { return strings.Contains(message, "index: _id_ ") }

// WriteErrors gives the errors of a bulk write by the index of their operation.
// It is nil where err holds none: then the whole write failed or succeeded.
func WriteErrors(err error) map[int]mongo.WriteError {
	var found map[int]mongo.WriteError
	add := func(we mongo.WriteError) {
		if found == nil {
			found = make(map[int]mongo.WriteError)
		}
		found[we.Index] = we
	}
	var bulk mongo.BulkWriteException
	if errors.As(err, &bulk) {
		for _, we := range bulk.WriteErrors {
			add(we.WriteError)
		}
		return found
	}
	var write mongo.WriteException
	if errors.As(err, &write) {
		for _, we := range write.WriteErrors {
			add(we)
		}
	}
	return found
}

// HasCode tells whether err comes from the server with one of these codes.
func HasCode(err error, codes ...int) bool {
	var server mongo.ServerError
	if !errors.As(err, &server) {
		return false
	}
	for _, code := range codes {
		if server.HasErrorCode(code) {
			return true
		}
	}
	return false
}
