package model

import (
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Kind is the kind of a write.
type Kind uint8

// The kinds.
const (
	// MoveWatermark raises the watermark of a unit without a document.
	MoveWatermark Kind = iota + 1
	// Create inserts the document.
	Create
	// Update changes the document, or only its watermark if Write.Update is nil.
	Update
	// Delete deletes the document.
	Delete
	// Erase raises the watermark of a unit that had no document before the fold and has
	// none after it, but had one in between. It deletes the document that a stale writer
	// may have created from an earlier part of the same events.
	Erase
)

// Write is the fold of a unit's events: one operation, guarded by the watermark that
// the fold started from.
type Write struct {
	Unit
	Kind Kind
	// From is the watermark of the folded state, and the guard. To is the last folded
	// event, which is the watermark after the write. It is greater than From.
	From, To int64
	// UpdatedAt is the UpdatedAt of the folded state. The document gets a later one, so
	// two different contents never have the same watermark and time.
	UpdatedAt int64
	// Exact adds UpdatedAt to the guard of an Update. It is for a state that was not
	// loaded but kept since an earlier write: since then, a repair may have replaced the
	// document without changing its watermark.
	Exact bool
	// Foreign is the Foreign of the folded state. Exactly that document is removed first.
	Foreign *Foreign
	// Document holds the projection's own fields of the document to create, without the
	// engine's.
	// For a unit with Parts it holds the whole part after the write, whatever the Kind is; nil
	// if there is none.
	Document bson.Raw
	// View makes the documents to which the part contributes. It is set if Parts is set.
	View View
	// Building says that a promotion will rename the collection. For a unit with Parts, the
	// write is Unknown with [ErrSuperseded] if that has happened.
	Building bool
	// Update holds $set and $unset of own fields and of keys one level below them
	// (field.key), and $push of own fields. nil means that only the watermark changes.
	Update bson.Raw
}

// Status is the outcome of a write.
type Status uint8

// The statuses.
const (
	// Unknown: the write may or may not have been applied, and the error is transient.
	// Load the unit again.
	Unknown Status = iota
	// Applied: the write is durable on a majority.
	Applied
	// Stale: the guard matched nothing, because the watermark is not From. Load the unit
	// again.
	Stale
	// Rejected: MongoDB will never accept the write. The error says why.
	Rejected
	// Conflict: another document has a value that a unique index allows only once. The
	// error says which. MongoDB accepts the write after that document has released the
	// value.
	Conflict
)

// String returns the name of the status in traces.
func (s Status) String() string {
	switch s {
	case Applied:
		return "applied"
	case Stale:
		return "stale"
	case Rejected:
		return "rejected"
	case Conflict:
		return "conflict"
	}
	return "unknown"
}

// Written is the result of a write.
type Written struct {
	Status Status
	Err    error
	// UpdatedAt is the document's UpdatedAt after an Update or a Create by this write; 0
	// if it is unknown whether this write has set it.
	UpdatedAt int64
}
