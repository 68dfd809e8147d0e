package model

import "go.mongodb.org/mongo-driver/v2/bson"

// Part is what one aggregate contributes to the documents of a view. Units whose Parts are
// set have a part instead of a document of their own.
type Part struct {
	AggregateID string
	// Document has the part's own fields and the list of the documents to which it
	// contributes; nil if the aggregate has no part.
	Document bson.Raw
}

// PartChange is a part before and after a write.
type PartChange struct {
	AggregateID   string
	Before, After bson.Raw
}

// View makes view documents from parts. A document depends on nothing but the parts that
// contribute to it: not on the order in which they were written, nor on the documents before.
// Its methods are pure. They take and return documents without _id, lastUpdatedAt and
// lastGeneration, but with [FieldParts], which Merge and Begin maintain.
type View interface {
	// Keys returns the _ids of the documents to which a part contributes, without repetition.
	Keys(part bson.Raw) []string
	// Split returns, by its _id, each document to which a part contributes, with what Merge and
	// Begin need of the part for it: a part that contributes to this document only. So the
	// work on a part with many documents is linear. The results may share memory with the part.
	Split(part bson.Raw) map[string]bson.Raw
	// Merge returns the document key after changes of some parts, given the one before; nil for
	// no document, which is the result when the last part has gone. It is false if the document
	// cannot be computed from the changes alone. Begin a fold of all parts then.
	Merge(key string, document bson.Raw, changes []PartChange) (next bson.Raw, ok bool, err error)
	// Fullness returns how near a document is to a limit of the view; 1 is at the limit.
	Fullness(document bson.Raw) float64
	// Begin begins to make the document key of all parts that contribute to it.
	Begin(key string) ViewFold
}

// ViewFold makes a view document of all its parts. Its memory depends on the document, not on
// the number of parts.
type ViewFold interface {
	// Add adds a part. The parts come in any order. An error is that of Document, and ends the
	// fold.
	Add(p Part) error
	// Document returns the document; nil if no part contributes to it.
	Document() (bson.Raw, error)
}

// Whole makes the document key of all parts that contribute to it.
func Whole(v View, key string, parts []Part) (bson.Raw, error) {
	fold := v.Begin(key)
	for _, p := range parts {
		if err := fold.Add(p); err != nil {
			return nil, err
		}
	}
	return fold.Document()
}

// FieldParts is the number of parts that contribute to a view document. It belongs to the
// engine, and marks the document as one of Penstock's: a view document has no lastEventId.
const FieldParts = "parts"

// FieldDocuments is the field of a part that lists the documents to which it contributes,
// each with its _id in [FieldKey].
const (
	FieldDocuments = "documents"
	FieldKey       = "key"
)

// ViewDocument is a document of a view as it is stored, and as its parts make it, at the same
// moment.
type ViewDocument struct {
	// Stored and Whole are as [View] has documents; nil for no document.
	Stored, Whole bson.Raw
	// Foreign is set if the stored document is of an older generation; Stored is nil then.
	Foreign bool
	// Err says why the stored document is none of Penstock's; nil if it is. The others are not
	// set then.
	Err error
}
