package mongox

import (
	"errors"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
)

// codeDuplicateKey is the server's DuplicateKey.
const codeDuplicateKey = 11000

// refusedCodes are the server's codes for a write whose data it does not take.
var refusedCodes = []int{
	2,     // BadValue
	9,     // FailedToParse
	14,    // TypeMismatch
	15,    // Overflow
	22,    // InvalidBSON
	28,    // PathNotViable
	34,    // CannotBackfillArray
	40,    // ConflictingUpdateOperators
	52,    // DollarPrefixedFieldName
	53,    // InvalidIdField
	54,    // NotSingleValueField
	56,    // EmptyFieldName
	57,    // DottedFieldName
	66,    // ImmutableField
	121,   // DocumentValidationFailure
	171,   // CannotIndexParallelArrays
	201,   // CannotBuildIndexKeys
	378,   // NonConformantBSON
	10334, // BSONObjectTooLarge
	11000, // DuplicateKey
	16755, // no geometry for a 2dsphere index
	17280, // KeyTooLong
	17419, // the document would exceed 16 MB after the update
}

// Refused tells whether the server does not take the data of a write: the
// collection's validator, a unique index, the size, a type. The same write fails
// again, and others succeed. What is neither [Transient] nor Refused is wrong with
// the deployment: permissions, a missing feature.
//
// Of a bulk write it says so where any operation was refused.
func Refused(err error) bool {
	var marshal mongo.MarshalError
	return HasCode(err, refusedCodes...) || errors.Is(err, driver.ErrDocumentTooLarge) || errors.As(err, &marshal)
}

// DuplicateKeyOnID tells whether err is a duplicate key in the index of _id, and
// nothing else: the document is there already. A duplicate in another unique index
// is a conflict between two documents. It takes the error of a whole operation or
// one [mongo.WriteError] of it.
func DuplicateKeyOnID(err error) bool {
	var bulk mongo.BulkWriteException
	if errors.As(err, &bulk) {
		other := slices.ContainsFunc(bulk.WriteErrors, func(we mongo.BulkWriteError) bool { return !duplicateOnID(we.WriteError) })
		return len(bulk.WriteErrors) > 0 && !other && bulk.WriteConcernError == nil
	}
	var write mongo.WriteException
	if errors.As(err, &write) {
		other := slices.ContainsFunc(write.WriteErrors, func(we mongo.WriteError) bool { return !duplicateOnID(we) })
		return len(write.WriteErrors) > 0 && !other && write.WriteConcernError == nil
	}
	var single mongo.WriteError
	if errors.As(err, &single) {
		return duplicateOnID(single)
	}
	var command mongo.CommandError
	return errors.As(err, &command) && duplicateOnID(mongo.WriteError{Code: int(command.Code), Message: command.Message, Raw: command.Raw})
}

func duplicateOnID(err mongo.WriteError) bool {
	if err.Code != codeDuplicateKey {
		return false
	}
	// keyPattern is in the reply since MongoDB 4.2; the message serves what lacks it.
	if pattern, ok := err.Raw.Lookup("keyPattern").DocumentOK(); ok {
		elements, e := pattern.Elements()
		return e == nil && len(elements) == 1 && elements[0].Key() == "_id"
	}
	return strings.Contains(err.Message, "index: _id_ ")
}

// WriteErrors gives the errors of a write by the index of their operation; nil
// where err holds none. An operation without an error of its own was carried out,
// unless [Unconfirmed] says that the majority does not have it.
func WriteErrors(err error) map[int]mongo.WriteError {
	var found []mongo.WriteError
	var bulk mongo.BulkWriteException
	var write mongo.WriteException
	switch {
	case errors.As(err, &bulk):
		for _, we := range bulk.WriteErrors {
			found = append(found, we.WriteError)
		}
	case errors.As(err, &write):
		found = write.WriteErrors
	}
	if len(found) == 0 {
		return nil
	}
	byIndex := make(map[int]mongo.WriteError, len(found))
	for _, we := range found {
		byIndex[we.Index] = we
	}
	return byIndex
}

// Unconfirmed tells whether err says that the majority has not confirmed a write:
// what it did may be rolled back, also the operations that have no error of their
// own. Do not acknowledge what rests on it; write again.
func Unconfirmed(err error) bool {
	var bulk mongo.BulkWriteException
	if errors.As(err, &bulk) {
		return bulk.WriteConcernError != nil
	}
	var write mongo.WriteException
	return errors.As(err, &write) && write.WriteConcernError != nil
}

// HasCode tells whether err comes from the server, or holds an error of it, with
// one of these codes.
func HasCode(err error, codes ...int) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && slices.ContainsFunc(codes, server.HasErrorCode)
}
