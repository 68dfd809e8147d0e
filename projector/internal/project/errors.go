package project

import "fmt"

// Error says that an event cannot be projected, now or later: an expression that
// fails on it, or a document that the read model refuses. It parks the aggregate.
type Error struct {
	Projection  string
	AggregateID string
	// EventID is the event that failed; all before it are applied.
	EventID   int64
	EventType string
	// Reason is one of a fixed set, for metrics and the parked list.
	Reason Reason
	// Err is the cause.
	Err error
}

func (e *Error) Error() string {
	return fmt.Sprintf("project event %d (%s) of aggregate %q into %s: %v", e.EventID, e.EventType, e.AggregateID, e.Projection, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Reason says in a word why an aggregate is parked.
type Reason string

// The reasons.
const (
	// ReasonExpression: an expression failed on the event.
	ReasonExpression Reason = "expression"
	// ReasonOperation: an operation does not fit what the document holds, such as
	// inc on a string.
	ReasonOperation Reason = "operation"
	// ReasonFunction: a projection in Go returned an error or panicked.
	ReasonFunction Reason = "function"
	// ReasonDocument: what is stored under the aggregate's id is no read model of the
	// projection.
	ReasonDocument Reason = "document"
	// ReasonRejected: MongoDB refuses the document: its validation, a unique index,
	// its size.
	ReasonRejected Reason = "rejected"
)
