package model

import (
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.opentelemetry.io/otel/trace"
)

// Kind is what a write does.
type Kind uint8

// The kinds.
const (
	// MoveWatermark moves the watermark of a unit without a document.
	MoveWatermark Kind = iota + 1
	// Create inserts the document.
	Create
	// Update changes the document, or only its watermark if Write.Update is nil.
	Update
	// Delete deletes the document.
	Delete
	// Erase moves the watermark of a unit that had no document before the fold and has
	// none after it, but had one in between. It deletes the document that a stale writer
	// may have made of an earlier part of the same events.
	Erase
)

// Write is the fold of a unit's events: one operation, guarded by the watermark that
// the fold started from.
type Write struct {
	Unit
	Kind Kind
	// From is the watermark of the state that was folded: the guard. To, greater than
	// From, is the last event folded and the watermark after the write.
	From, To int64
	// UpdatedAt is that of the state that was folded. The document gets a later one, so a
	// watermark with its time is never that of two contents.
	UpdatedAt int64
	// Exact makes UpdatedAt a part of the guard of an Update. It is for a state that was
	// not loaded, but kept since the write that Written.UpdatedAt is of: a repair may have
	// replaced the document since, and have left its watermark as it was.
	Exact bool
	// Foreign is that of the state that was folded: exactly that document is removed
	// first.
	Foreign *Foreign
	// Document holds the own fields of a document to create: without the engine's.
	Document bson.Raw
	// Update holds $set and $unset of own fields and of keys one level below them, with a dot
	// between, and $push of own fields; nil means that only the watermark moves.
	Update bson.Raw
	// Traced are the spans of the write's sampled events; nil if there are none.
	Traced []trace.SpanContext
}

// Status is what became of a write.
type Status uint8

// The statuses.
const (
	// Unknown: it may or may not have happened, and the error is transient. Load again.
	Unknown Status = iota
	// Applied: it is durable on a majority.
	Applied
	// Stale: the guard matched nothing, because the watermark is not From. Load again.
	Stale
	// Rejected: MongoDB will never take it, and the error says why.
	Rejected
	// Conflict: another document holds a value that a unique index allows once, and the
	// error says which. MongoDB takes the write when that document has released the
	// value.
	Conflict
)

// String is the status in a trace.
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
	// UpdatedAt is that of the document after an Update or a Create that certainly was
	// this write; 0 if that is not known.
	UpdatedAt int64
}
