package mongox

import (
	"errors"
	"slices"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// DuplicateKeyOnID reports whether err is a duplicate key in the index of _id, so that the
// document already exists. A duplicate in another unique index is a conflict between two
// documents. err is the error of a whole operation or one of its [mongo.WriteError]s.
func DuplicateKeyOnID(err error) bool {
	if bulk, ok := errors.AsType[mongo.BulkWriteException](err); ok {
		other := slices.ContainsFunc(bulk.WriteErrors, func(we mongo.BulkWriteError) bool { return !duplicateOnID(we.WriteError) })
		return len(bulk.WriteErrors) > 0 && !other && bulk.WriteConcernError == nil
	}
	if write, ok := errors.AsType[mongo.WriteException](err); ok {
		other := slices.ContainsFunc(write.WriteErrors, func(we mongo.WriteError) bool { return !duplicateOnID(we) })
		return len(write.WriteErrors) > 0 && !other && write.WriteConcernError == nil
	}
	if single, ok := errors.AsType[mongo.WriteError](err); ok {
		return duplicateOnID(single)
	}
	var command mongo.CommandError
	return errors.As(err, &command) && duplicateOnID(mongo.WriteError{Code: int(command.Code), Message: command.Message, Raw: command.Raw})
}

func duplicateOnID(err mongo.WriteError) bool {
	if err.Code != CodeDuplicateKey {
		return false
	}
	pattern, _ := err.Raw.Lookup("keyPattern").DocumentOK()
	elements, e := pattern.Elements()
	return e == nil && len(elements) == 1 && elements[0].Key() == "_id"
}

// WriteErrors gives the errors of a write by the index of their operation; nil if err has
// none. Operations without an error were carried out. If err also has a write concern
// error, a new primary may roll them back.
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

// HasCode reports whether err is, or wraps, a server error with one of these codes.
func HasCode(err error, codes ...int) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && slices.ContainsFunc(codes, server.HasErrorCode)
}
