package projection

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Error says why an aggregate is parked in a projection: an expression that fails on
// an event, a document that the read model refuses, an event that is missing.
type Error struct {
	Projection  string
	AggregateID string
	// EventID is the event that failed or is missing. All events before it are applied,
	// except with [ReasonUnavailable], where that is unknown.
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

// Marker is the entry of the parked list for a unit that is parked because of e. raw is the
// aggregate's id with its type in the event store. head is the last event of the aggregate
// that was seen.
func (e *Error) Marker(u model.Unit, raw bson.RawValue, head int64) model.Marker {
	m := model.Marker{
		Unit: u, RawAggregateID: raw, Reason: string(e.Reason), Resumes: e.Reason.Resumes(), Seldom: e.Reason.Seldom(),
		EventID: e.EventID, Head: head,
	}
	if e.Err != nil {
		m.Error = e.Err.Error()
	}
	return m
}

// Reason is the reason, as one word, why an aggregate is parked.
type Reason string

// The reasons.
const (
	// ReasonSchema: a field of the event has another type than the section events declares.
	ReasonSchema Reason = "schema"
	// ReasonExpression: an expression failed on the event.
	ReasonExpression Reason = "expression"
	// ReasonOperation: an operation does not fit the value in the document, such as inc on
	// a string.
	ReasonOperation Reason = "operation"
	// ReasonFunction: a projection in Go returned an error or panicked.
	ReasonFunction Reason = "function"
	// ReasonDocument: the document with the aggregate's id is not a read model of the
	// projection.
	ReasonDocument Reason = "document"
	// ReasonRejected: MongoDB refuses the document: its validation, its size.
	ReasonRejected Reason = "rejected"
	// ReasonMissing: the event store does not have the aggregate's next event.
	ReasonMissing Reason = "missing"
	// ReasonConflict: another document has a value that must be unique.
	ReasonConflict Reason = "conflict"
	// ReasonUnavailable: a store did not load or write data of the aggregate, or no time was
	// left for its evaluation.
	ReasonUnavailable Reason = "unavailable"
	// ReasonHistory: the event store has events of the aggregate, but not the first ones,
	// so that its read model cannot be folded from nothing.
	ReasonHistory Reason = "history"
)

// Reasons are all reasons, in the order above.
func Reasons() []Reason {
	return []Reason{
		ReasonSchema, ReasonExpression, ReasonOperation, ReasonFunction, ReasonDocument, ReasonRejected,
		ReasonMissing, ReasonConflict, ReasonUnavailable, ReasonHistory,
	}
}

// Resumes reports whether a unit that is parked for the reason resumes by itself when the
// reason has gone.
func (r Reason) Resumes() bool {
	return r == ReasonMissing || r == ReasonConflict || r == ReasonUnavailable || r.Seldom()
}

// Seldom reports whether the reason of a unit that resumes by itself mostly ends only when
// somebody acts, so that it is retried at long intervals.
func (r Reason) Seldom() bool { return r == ReasonHistory }
