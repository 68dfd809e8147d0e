package operate

import (
	"errors"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/authoring"
)

// replay folds the history of one aggregate into one projection, from its first event and
// by the rules of a rebuild, and writes nothing. It stops before a missing event.
type replay struct {
	projection *projection.Projection
	fold       *projection.Accumulator
	// first is the id of the first event of each aggregate.
	first int64
	// events counts all events, waiting those after the aggregate was parked.
	events, waiting int64
	// parked says where and why the aggregate would be parked; nil if it would not.
	parked *projection.Error
	// unreadable is the contract error of the previous event; nil if that event is
	// readable.
	unreadable error
}

func newReplay(p *projection.Projection, firstEvent int64) *replay {
	return &replay{projection: p, fold: p.Begin(nil), first: firstEvent}
}

// next is the event that must follow.
func (r *replay) next() int64 { return max(r.first, r.fold.Last()+1) }

// begins reports whether the history begins with a snapshot, given its first readable event.
func (r *replay) begins(ev *event.Event) bool {
	return r.fold.Last() < 0 && r.projection.BeginsAt(ev, r.first) == ev.EventID
}

// concerned reports whether an event of the aggregate concerns the projection.
func (r *replay) concerned() bool { return r.fold.Concerned() || r.parked != nil }

// Outcomes beside those of a fold.
const (
	// unreadable: the event breaks the event contract. The publisher puts such an event
	// into the quarantine.
	unreadable authoring.Outcome = "unreadable"
	// waits: the aggregate is parked at an earlier event.
	waits authoring.Outcome = "waits"
)

// add folds an event. err is why it breaks the contract, if it does.
func (r *replay) add(ev *event.Event, err error) {
	if r.admit(ev, err) == "" {
		if failed := r.fold.Add([]*event.Event{ev}); failed != nil {
			r.parked = failed
		}
	}
}

// explain folds an event as add does, and returns what it did.
func (r *replay) explain(ev *event.Event, err error) authoring.Step {
	outcome := r.admit(ev, err)
	if outcome == "" {
		step := authoring.Explain(r.fold, ev)
		if step.Err != nil {
			r.parked = step.Err
		}
		return step
	}
	step := authoring.Step{EventID: ev.EventID, EventType: ev.EventType, Timestamp: ev.Timestamp, Outcome: outcome}
	if err != nil {
		step.Why = err.Error()
	}
	return step
}

// admit returns the outcome of an event that must not be folded; empty if it must be.
func (r *replay) admit(ev *event.Event, err error) authoring.Outcome {
	r.events++
	switch {
	case err != nil:
		r.unreadable = err
		return unreadable
	case r.parked != nil:
		r.waiting++
		return waits
	case ev.EventID > r.next() && r.projection.Concerns(ev) && !r.begins(ev):
		r.parked = r.gap(ev)
		r.waiting++
		return waits
	}
	r.unreadable = nil
	return ""
}

// gap returns why the events before ev are not folded.
func (r *replay) gap(ev *event.Event) *projection.Error {
	e := &projection.Error{
		Projection: r.projection.Name(), AggregateID: ev.AggregateID, EventID: r.next(),
		Reason: projection.ReasonMissing, Err: errors.New("the event store does not have the event"),
	}
	switch {
	case r.unreadable != nil:
		e.Err = r.unreadable
	case r.fold.Last() < 0:
		e.Reason, e.Err = projection.ReasonHistory, fmt.Errorf("the first event that the event store has of the aggregate is %d", ev.EventID)
	}
	return e
}
