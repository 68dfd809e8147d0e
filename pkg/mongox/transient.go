package mongox

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"
)

// transientCodes are the server's codes after which the same operation may succeed later.
// They are the categories RetriableError, NetworkError, NotPrimaryError, ShutdownError,
// Interruption, CursorInvalidatedError, SnapshotError, SystemOverloadedError and
// StaleShardVersionError, as far as they reach clients, and single codes of a server that
// waits for a condition. Source:
// https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml
var transientCodes = []int{
	6,     // HostUnreachable
	7,     // HostNotFound
	24,    // LockTimeout
	43,    // CursorNotFound
	46,    // LockBusy
	50,    // MaxTimeMSExpired
	63,    // StaleShardVersion
	64,    // WriteConcernTimeout
	70,    // ShardNotFound
	89,    // NetworkTimeout
	91,    // ShutdownInProgress
	94,    // NotYetInitialized: a replica set that starts
	100,   // UnsatisfiableWriteConcern: members are missing
	107,   // LockFailed
	112,   // WriteConflict
	117,   // ConflictingOperationInProgress
	133,   // FailedToSatisfyReadPreference
	134,   // ReadConcernMajorityNotAvailableYet
	149,   // NoConfigPrimary
	150,   // StaleEpoch
	175,   // QueryPlanKilled
	189,   // PrimarySteppedDown
	202,   // NetworkInterfaceExceededTimeLimit
	216,   // ElectionInProgress
	225,   // TransactionTooOld
	234,   // RetryChangeStream
	237,   // CursorKilled
	239,   // SnapshotTooOld
	246,   // SnapshotUnavailable
	249,   // StaleDbVersion
	250,   // StaleChunkHistory
	251,   // NoSuchTransaction
	262,   // ExceededTimeLimit
	264,   // TooManyFilesOpen
	267,   // PreparedTransactionInProgress
	272,   // MigrationConflict
	279,   // ClientDisconnect
	281,   // TransactionCoordinatorSteppingDown
	282,   // TransactionCoordinatorReachedAbortDecision
	290,   // TransactionExceededLifetimeLimitSeconds
	303,   // SplitHorizonChange
	314,   // ObjectIsBusy
	355,   // InterruptedDueToStorageChange
	358,   // InternalTransactionNotSupported
	363,   // RetryableTransactionInProgress
	365,   // TemporarilyUnavailable
	371,   // UserWritesBlocked: a migration between clusters
	391,   // ReauthenticationRequired
	402,   // ResourceExhausted
	406,   // MigrationBlockingOperationCoordinatorCleaningUp
	407,   // PooledConnectionAcquisitionExceededTimeLimit
	412,   // UpdatesStillPending
	433,   // AdmissionQueueOverflow
	449,   // RateLimitExceeded
	450,   // PooledConnectionAcquisitionRejected
	453,   // InterruptedDueToReshardingCriticalSection
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
	14031, // OutOfDiskSpace
	16500, // Azure Cosmos DB: the request rate is too large
	46841, // ClientMarkedKilled
	91331, // RetriableRemoteCommandFailure

	10045600, // InterruptedDueToFCVChange
}

// transientLabels are the labels by which the server or the driver permits a retry.
var transientLabels = []string{
	"NetworkError",
	"NetworkTimeoutError",
	"RetryableError",
	"RetryableWriteError",
	"ResumableChangeStreamError",
	"SystemOverloadedError",
	"TransientTransactionError",
	"UnknownTransactionCommitResult",
	"ExceededTimeLimitError",
}

// Transient reports whether the same operation may succeed later: after network errors,
// elections, overloaded or full servers, write conflicts and timeouts. It is also true for
// a context that ended and a client that was closed, because the operation itself was
// valid. The caller checks its own context before a retry.
//
// For a bulk write it is true only if no operation failed permanently; [WriteErrors] gives
// the failed ones.
func Transient(err error) bool {
	if err == nil {
		return false
	}
	if bulk, ok := errors.AsType[mongo.BulkWriteException](err); ok {
		failed := slices.ContainsFunc(bulk.WriteErrors, func(we mongo.BulkWriteError) bool { return !transientServer(we.WriteError) })
		return !failed && (len(bulk.WriteErrors) > 0 || bulk.WriteConcernError != nil || transientServer(bulk))
	}
	if write, ok := errors.AsType[mongo.WriteException](err); ok {
		failed := slices.ContainsFunc(write.WriteErrors, func(we mongo.WriteError) bool { return !transientServer(we) })
		return !failed && (len(write.WriteErrors) > 0 || write.WriteConcernError != nil || transientServer(write))
	}
	if server, ok := errors.AsType[mongo.ServerError](err); ok {
		return transientServer(server)
	}
	return transientClient(err)
}

// transientServer classifies an error from the server, or one that the driver has in the
// same form.
func transientServer(err mongo.ServerError) bool {
	return slices.ContainsFunc(transientLabels, err.HasErrorLabel) ||
		slices.ContainsFunc(transientCodes, err.HasErrorCode) ||
		atlasFault(err) ||
		transientClient(err)
}

// atlasFault reports whether the proxy of Atlas failed. The proxy uses the same code when
// it refuses credentials ("bad auth : authentication failed") or an operation ("user is not
// allowed to do action [find] on [shop.events]", "CMD_NOT_ALLOWED: …").
func atlasFault(err mongo.ServerError) bool {
	if !err.HasErrorCode(CodeAtlasError) {
		return false
	}
	text := strings.ToLower(err.Error())
	return !slices.ContainsFunc([]string{"auth", "not allowed", "not_allowed", "unsupported", "not supported"},
		func(refusal string) bool { return strings.Contains(text, refusal) })
}

// transientClient classifies an error without an answer of a server.
func transientClient(err error) bool {
	var selection topology.ServerSelectionError
	var connection topology.ConnectionError
	var queue topology.WaitQueueTimeoutError
	var network net.Error
	// The driver does not export the error of a cleared pool, but that has this method
	// (driver.RetryablePoolError).
	var pool interface{ Retryable() bool }
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, mongo.ErrClientDisconnected):
		return true
	case errors.As(err, &selection), errors.As(err, &connection), errors.As(err, &queue), errors.As(err, &network):
		return !HasCode(err, CodeAuthenticationFailed)
	case errors.As(err, &pool) && pool.Retryable():
		return true
	}
	return mongo.IsTimeout(err) || mongo.IsNetworkError(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
