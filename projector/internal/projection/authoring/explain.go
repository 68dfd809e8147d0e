package authoring

import (
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/fold"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// Outcome says what an event did to a read model.
type Outcome string

// The outcomes.
const (
	// Applied: the handler ran. It may have changed nothing.
	Applied Outcome = "applied"
	// LeftOut: the event does not concern the projection, or its condition is false.
	LeftOut Outcome = "left out"
	// Duplicate: the read model has the event already.
	Duplicate Outcome = "duplicate"
	// Failed: the aggregate is parked at the event.
	Failed Outcome = "failed"
)

// Step explains one event of a fold. It shares no memory with the event.
type Step struct {
	EventID   int64     `json:"eventId"`
	EventType string    `json:"eventType"`
	Timestamp time.Time `json:"timestamp,omitzero"`
	Outcome   Outcome   `json:"outcome"`
	// Why says why the event was left out.
	Why string `json:"why,omitempty"`
	// Evaluations are the expressions that ran, in their order. A projection in Go has none.
	Evaluations []projection.Evaluation `json:"evaluations,omitempty"`
	// Created and Deleted say that the document, or the part of a view, was created or deleted.
	Created bool `json:"created,omitempty"`
	Deleted bool `json:"deleted,omitempty"`
	// Changes are the first fields that changed, and More how many others did.
	Changes []FieldChange `json:"changes,omitempty"`
	More    int           `json:"more,omitempty"`
	// Documents are the documents of a view that change with the part.
	Documents []DocumentChange `json:"documents,omitempty"`
	// Err is why the event failed, and Error its text; nil and empty if it did not.
	Err   *projection.Error `json:"-"`
	Error string            `json:"error,omitempty"`
}

// Explain folds one event as [projection.Accumulator.Add] does, and explains what it did.
// Unlike Add it copies the document.
func Explain(a *projection.Accumulator, ev *event.Event) Step {
	s := Step{EventID: ev.EventID, EventType: ev.EventType, Timestamp: ev.Timestamp}
	last, before := a.Last(), a.State()
	trace, err := a.Trace(ev)
	s.Evaluations = trace.Evaluations
	switch {
	case err != nil:
		s.Outcome, s.Err, s.Error = Failed, err, err.Err.Error()
	case a.Last() == last:
		s.Outcome, s.Why = Duplicate, fmt.Sprintf("the read model has the events up to %d", last)
	case trace.LeftOut != "":
		s.Outcome, s.Why = LeftOut, trace.LeftOut
	default:
		after := a.State()
		s.Outcome, s.Created, s.Deleted = Applied, before == nil && after != nil, before != nil && after == nil
		if a.View() {
			s.Documents = Documents(before, after)
			before, after = fold.WithoutDocuments(before), fold.WithoutDocuments(after)
		}
		if !s.Deleted {
			s.Changes, s.More = Changes(before, after)
		}
	}
	return s
}
