package readmodel

import (
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// maxDocument is MongoDB's limit of a document:
// https://www.mongodb.com/docs/manual/reference/limits/#bson-documents
const maxDocument = 16 << 20

// judge gives the result of an operation from the server's error.
func judge(e mongo.WriteError) model.Written {
	switch {
	case mongox.DuplicateKeyOnID(e):
		return model.Written{Status: model.Stale}
	case e.Code == mongox.CodeDuplicateKey:
		return model.Written{Status: model.Conflict, Err: fmt.Errorf("another document holds a unique value (two aggregates that exchange theirs wait for each other: \"projector projections rebuild\" ends that): %w", e)}
	case rejections[e.Code] != "" && !mongox.Transient(e):
		return model.Written{Status: model.Rejected, Err: fmt.Errorf("refused by MongoDB (%s): %w", rejections[e.Code], e)}
	}
	return model.Written{Status: model.Unknown, Err: e}
}

// judgeAll turns the error of a bulk write into results. For an operation that the error
// does not mention, it calls rest, if the server judged some operations and did not refuse
// the command.
func judgeAll(err error, n int, rest func(i int) model.Written) []model.Written {
	results := make([]model.Written, n)
	bad := mongox.WriteErrors(err)
	uncertain := err != nil && (len(bad) == 0 || concerned(err))
	if n == 1 && len(bad) == 0 && rejectsCommand(err) {
		return []model.Written{{Status: model.Rejected, Err: fmt.Errorf("refused by MongoDB: %w", err)}}
	}
	for i := range results {
		if e, ok := bad[i]; ok {
			results[i] = judge(e)
		} else if uncertain {
			results[i] = model.Written{Status: model.Unknown, Err: err}
		} else {
			results[i] = rest(i)
		}
	}
	return results
}

// rejectsCommand reports whether the server refused a whole command because of the content
// of one operation, without saying which one.
func rejectsCommand(err error) bool {
	command, ok := errors.AsType[mongo.CommandError](err)
	return ok && rejections[int(command.Code)] != "" && !mongox.Transient(err)
}

// unknown gives the results of operations whose outcome is not known.
func unknown(err error, n int) []model.Written {
	results := make([]model.Written, n)
	for i := range results {
		results[i] = model.Written{Status: model.Unknown, Err: err}
	}
	return results
}

// concerned reports whether the write was made but not on a majority, so that it may be
// rolled back.
func concerned(err error) bool {
	var bulk mongo.BulkWriteException
	return errors.As(err, &bulk) && bulk.WriteConcernError != nil
}

// tooLarge rejects a document that the driver would refuse to send, together with the rest
// of its group.
func tooLarge(o *model.Write) (model.Written, bool) {
	// The engine's fields need room too.
	const margin = 1 << 10
	if size := max(len(o.Document), len(o.Update)) + len(o.AggregateID) + margin; size > maxDocument {
		return model.Written{Status: model.Rejected, Err: fmt.Errorf("the document has %d bytes, more than MongoDB's %d", size, maxDocument)}, true
	}
	return model.Written{}, false
}

// rejections are the server's codes for documents and updates that can never succeed, with
// the server's name of the code, or a description if it has no name. They park one
// aggregate permanently.
//
// Every code of the server's table is classified. The codes that are not here are
//
//   - transient: see mongox.Transient;
//   - about the server, the client's rights or the deployment, such as Unauthorized,
//     NamespaceNotFound or OutdatedClient. An operator can correct these, and no aggregate
//     is the reason. The lanes retry, and aggregates parked for it resume by themselves;
//   - about commands that this package does not send.
//
// The table: https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml
// The five-digit codes are in the source of the indexes that raise them.
var rejections = map[int]string{
	2:   "BadValue",
	9:   "FailedToParse",
	10:  "CannotMutateObject",
	14:  "TypeMismatch",
	15:  "Overflow", // nested too deep
	16:  "InvalidLength",
	21:  "EmptyArrayOperation",
	22:  "InvalidBSON",
	28:  "PathNotViable",
	29:  "NonExistentPath",
	30:  "InvalidPath",
	34:  "CannotBackfillArray",
	40:  "ConflictingUpdateOperators",
	52:  "DollarPrefixedFieldName",
	53:  "InvalidIdField",
	54:  "NotSingleValueField",
	55:  "InvalidDBRef",
	56:  "EmptyFieldName",
	57:  "DottedFieldName",
	61:  "ShardKeyNotFound",
	66:  "ImmutableField", // a shard key's field, which a document must keep
	72:  "InvalidOptions",
	111: "NotExactValueField",
	116: "DocTooLargeForCapped",
	121: "DocumentValidationFailure",
	159: "DurationOverflow",
	166: "CommandNotSupportedOnView",
	171: "CannotIndexParallelArrays",
	201: "CannotBuildIndexKeys",
	241: "ConversionFailure",
	283: "WouldChangeOwningShard",
	357: "InvalidBSONType",
	378: "NonConformantBSON",

	10334: "BSONObjectTooLarge",
	13026: "a 2d index takes numbers only",
	13027: "a point is outside of the 2d index",
	13067: "a 2d index cannot read an empty location",
	13068: "a 2d index needs two coordinates",
	13654: "a 2d index cannot read the location",
	16755: "a 2dsphere index cannot read the location",
	16766: "a hashed index takes no arrays",
	16804: "a 2d index cannot read the location",
	17261: "a text index found a language that is not a string",
	17262: "a text index does not know the language",
	17280: "KeyTooLong",
	17419: "the updated document is too large",
	17420: "the document to upsert is too large",
}
