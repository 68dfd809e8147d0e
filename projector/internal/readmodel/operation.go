package readmodel

import "go.mongodb.org/mongo-driver/v2/bson"

// Key says whose read model is meant.
type Key struct {
	Projection  string
	Collection  string
	AggregateID string
	// Deletes is whether the projection may delete documents: what it creates is
	// then protected against resurrecting a deleted one.
	Deletes bool
}

// State is what is stored for a key.
type State struct {
	// Document is the whole document; nil where there is none.
	Document bson.Raw
	// Watermark is the last event in it; 0 where there is none yet.
	Watermark int64
	// Err says that what is stored under the key is no read model; permanent.
	Err error
	// Unavailable says that this key could not be loaded now; the others could.
	Unavailable error
	// Deferred says that this key was not loaded, because as many documents as memory
	// has room for were: ask again when they are released.
	Deferred bool
}

// Kind is what an operation does.
type Kind uint8

// The kinds.
const (
	// MoveWatermark moves the watermark of a key without a document.
	MoveWatermark Kind = iota + 1
	// Create inserts the document.
	Create
	// Update changes the document, or only its watermark where Update is nil.
	Update
	// Delete deletes the document.
	Delete
	// Erase moves the watermark of a key without a document, and deletes the document
	// that a stale writer may have made of an earlier part of the same events.
	Erase
)

// Operation is one guarded change of one key.
type Operation struct {
	Key
	Kind Kind
	// From is the watermark that the change starts from: the guard. To, greater than
	// From, is the watermark after it.
	From, To int64
	// Document holds the own fields for Create: without _id, lastEventId and
	// lastUpdatedAt.
	Document bson.Raw
	// Update holds $set, $unset and $push of own fields for Update; nil means that
	// only the watermark moves.
	Update bson.Raw
}

// Status is what became of an operation.
type Status uint8

// The statuses.
const (
	// Unknown: it may or may not have happened, and Err is transient.
	Unknown Status = iota
	// Applied: it is durable on a majority.
	Applied
	// Stale: the guard matched nothing: the watermark is not From.
	Stale
	// Rejected: MongoDB will never take it, and Err says why.
	Rejected
	// Conflict: another document holds a value that a unique index allows once, and Err
	// says which. MongoDB takes the operation when the value has been released.
	Conflict
)

// Result is the outcome of an operation.
type Result struct {
	Status Status
	Err    error
}
