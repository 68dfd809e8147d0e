package projection

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
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
	Evaluations []Evaluation `json:"evaluations,omitempty"`
	// Created and Deleted say that the document was created or deleted.
	Created bool `json:"created,omitempty"`
	Deleted bool `json:"deleted,omitempty"`
	// Changes are the first fields that changed, and More how many others did.
	Changes []FieldChange `json:"changes,omitempty"`
	More    int           `json:"more,omitempty"`
	// Err is why the event failed; nil if it did not.
	Err *Error `json:"-"`
}

// Explain folds one event as Add does, and explains what it did. Unlike Add it copies the
// document.
func (a *Accumulator) Explain(ev *event.Event) Step {
	s := Step{EventID: ev.EventID, EventType: ev.EventType, Timestamp: ev.Timestamp}
	if a.failed == nil && (ev.EventID <= a.last || ev.EventID > a.until) {
		s.Outcome, s.Why = Duplicate, fmt.Sprintf("the read model has the events up to %d", a.last)
		return s
	}
	before := a.document.state()
	a.trace = &trace{}
	s.Err = a.Add([]*event.Event{ev})
	s.Evaluations = a.trace.evaluations
	eventType := cmp.Or(a.trace.eventType, ev.EventType)
	a.trace = nil
	if s.Err != nil {
		s.Outcome = Failed
		return s
	}
	if s.Why = a.projection.whyNot(ev, eventType, s.Evaluations); s.Why != "" {
		s.Outcome = LeftOut
		return s
	}
	after := a.document.state()
	s.Outcome, s.Created, s.Deleted = Applied, before == nil && after != nil, before != nil && after == nil
	if !s.Deleted {
		s.Changes, s.More = Changes(before, after)
	}
	return s
}

// refused reports whether no rule held.
func refused(rules []*handler, evaluated []Evaluation) bool {
	evaluated = slices.DeleteFunc(slices.Clone(evaluated), func(e Evaluation) bool { return strings.HasPrefix(e.Word, string(opUpcast)+" ") })
	if rules[len(rules)-1].when == nil || len(evaluated) != len(rules) {
		return false
	}
	last := evaluated[len(evaluated)-1]
	return last.Word == wordWhen && last.Result == "false"
}

// whyNot says why an event that was folded has changed nothing; empty if its handler ran.
// eventType is the event's type after the upcasts.
func (p *Projection) whyNot(ev *event.Event, eventType string, evaluated []Evaluation) string {
	switch {
	case !p.Concerns(ev) && ev.AggregateType == "":
		return "the event has no aggregate type, and the projection takes " + p.aggregateType
	case !p.Concerns(ev):
		return fmt.Sprintf("the aggregate type is %s, and the projection takes %s", ev.AggregateType, p.aggregateType)
	case !p.Handles(ev):
		return "the projection has no handler for the event type"
	case p.apply != nil:
		return ""
	case p.on[eventType] == nil:
		return fmt.Sprintf("upcasts make %s of the event, for which the projection has no handler", eventType)
	case refused(p.on[eventType], evaluated):
		return "the condition is false"
	}
	return ""
}
