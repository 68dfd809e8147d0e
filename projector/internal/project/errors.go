package project

import "fmt"

// Error says why an aggregate is parked in a projection: an expression that fails on
// an event, a document that the read model refuses, an event that is missing.
type Error struct {
	Projection  string
	AggregateID string
	// EventID is the event that failed or is missing. All before it are applied, except
	// with [ReasonUnavailable]: nobody could look.
	EventID int64
	// EventType is empty for an event that is missing.
	EventType string
	// Reason is one of a fixed set, for metrics and the parked list.
	Reason Reason
	// Err is the cause.
	Err error
}

func (e *Error) Error() string {
	what := ""
	if e.EventType != "" {
		what = " (" + e.EventType + ")"
	}
	return fmt.Sprintf("project event %d%s of aggregate %q into %s: %v", e.EventID, what, e.AggregateID, e.Projection, e.Err)
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
	// ReasonMissing: the event store does not have the aggregate's next event.
	ReasonMissing Reason = "missing"
	// ReasonUnavailable: a store did not load or write what concerns the aggregate.
	ReasonUnavailable Reason = "unavailable"
)

// Reasons are all of them, in the order above.
func Reasons() []Reason {
	return []Reason{
		ReasonExpression, ReasonOperation, ReasonFunction, ReasonDocument, ReasonRejected,
		ReasonMissing, ReasonUnavailable,
	}
}

// Resumes reports whether a unit that is parked for the reason goes on by itself
// once the reason has gone.
func (r Reason) Resumes() bool { return r == ReasonMissing || r == ReasonUnavailable }
