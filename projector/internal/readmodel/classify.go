package readmodel

import (
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// maxDocument is MongoDB's limit of a document:
// https://www.mongodb.com/docs/manual/reference/limits/#bson-documents
const maxDocument = 16 << 20

// rejections are the server's codes that say that a document or an update will
// never do, whoever else does what. All others are taken for transient: parking is
// for what an aggregate did, not for what befell the server.
// https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml
var rejections = []int{
	2,     // BadValue
	9,     // FailedToParse
	14,    // TypeMismatch
	15,    // Overflow: nested too deep
	28,    // PathNotViable
	40,    // ConflictingUpdateOperators
	52,    // DollarPrefixedFieldName
	57,    // DottedFieldName
	121,   // DocumentValidationFailure
	171,   // CannotIndexParallelArrays
	10334, // BSONObjectTooLarge
	16755, // a 2dsphere index cannot read the location
	17280, // KeyTooLong
	17419, // resulting document after an update is too large
	17420, // document to upsert is too large
}

// codeDuplicateKey is the server's DuplicateKey.
const codeDuplicateKey = 11000

// judge says what a server's error means for the operation that it is about.
func judge(e mongo.WriteError) Result {
	switch {
	case mongox.DuplicateKeyOnID(e):
		return Result{Status: Stale}
	case e.Code == codeDuplicateKey:
		return Result{Status: Conflict, Err: fmt.Errorf("another document holds a unique value: %w", e)}
	case slices.Contains(rejections, e.Code) && !mongox.Transient(e):
		return Result{Status: Rejected, Err: fmt.Errorf("refused by MongoDB: %w", e)}
	}
	return Result{Status: Unknown, Err: e}
}

// judgeAll turns the error of a bulk write into results. An operation that the
// server did not judge is left to rest: it is called where the server judged some
// operations and says nothing against the others.
func judgeAll(err error, n int, rest func(i int) Result) []Result {
	results := make([]Result, n)
	bad := mongox.WriteErrors(err)
	uncertain := err != nil && (len(bad) == 0 || concerned(err))
	for i := range results {
		if e, ok := bad[i]; ok {
			results[i] = judge(e)
		} else if uncertain {
			results[i] = Result{Status: Unknown, Err: err}
		} else {
			results[i] = rest(i)
		}
	}
	return results
}

// unknown answers for operations of which nothing is known.
func unknown(err error, n int) []Result {
	results := make([]Result, n)
	for i := range results {
		results[i] = Result{Status: Unknown, Err: err}
	}
	return results
}

// concerned says whether the write is there but not on a majority, so that it may
// be rolled back.
func concerned(err error) bool {
	var bulk mongo.BulkWriteException
	return errors.As(err, &bulk) && bulk.WriteConcernError != nil
}

// tooLarge rejects what the driver would not even send, along with all the others.
func tooLarge(o *Operation) (Result, bool) {
	// What the engine adds has its share.
	const margin = 1 << 10
	if size := max(len(o.Document), len(o.Update)) + len(o.AggregateID) + margin; size > maxDocument {
		return Result{Status: Rejected, Err: fmt.Errorf("the document has %d bytes, more than MongoDB's %d", size, maxDocument)}, true
	}
	return Result{}, false
}
