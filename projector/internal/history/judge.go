package history

import (
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// judge compares the stored state of one aggregate with its events. The caller adds all
// events in order, in one or more parts.
type judge struct {
	target *engine.Target
	unit   model.Unit
	state  model.State
	// fold folds the events up to the watermark; nil if there is no watermark. failed is the
	// error that stopped it.
	fold   *projection.Accumulator
	failed *projection.Error
	// parkedAt is the event at which the aggregate is parked. It and the following ids are
	// NoEvent of the unit if there is no such event.
	parkedAt int64
	// last is the last event, and head the last one that concerns the projection. due is the
	// last one of those before parkedAt and before a hole: a parked aggregate must have it.
	last, head, due int64
	// before is the event before the first one of the history: NoEvent, unless it begins with a
	// snapshot.
	before int64
	// reached is the last event up to the watermark.
	reached int64
	// hole is the first event id that is missing.
	hole int64
	// whole folds all events, or those before parkedAt, if there is no document, to detect a
	// missing one.
	whole *projection.Accumulator
}

func newJudge(t *engine.Target, aggregateID string, state model.State, parkedAt int64) *judge {
	j := &judge{target: t, unit: t.Unit(aggregateID), state: state, parkedAt: parkedAt}
	none := j.unit.NoEvent()
	j.last, j.head, j.due, j.before, j.reached, j.hole = none, none, none, none, none, none
	if state.Watermark > none {
		j.fold = t.Projection.Begin(nil)
	}
	if state.Document == nil && parkedAt != j.unit.FirstEvent() {
		j.whole = t.Projection.Begin(nil)
	}
	return j
}

// parked reports whether the aggregate is parked.
func (j *judge) parked() bool { return j.parkedAt > j.unit.NoEvent() }

// upTo returns the events with ids up to last.
func upTo(events []*event.Event, last int64) []*event.Event {
	if i := slices.IndexFunc(events, func(ev *event.Event) bool { return ev.EventID > last }); i >= 0 {
		return events[:i]
	}
	return events
}

// add takes the next events.
func (j *judge) add(events []*event.Event) {
	for _, ev := range events {
		if j.last == j.unit.NoEvent() {
			j.before = j.target.Projection.BeginsAt(ev, j.unit.FirstEvent()) - 1
			j.last = j.before
		}
		if ev.EventID <= j.last {
			continue
		}
		if j.hole == j.unit.NoEvent() && ev.EventID != j.last+1 {
			j.hole = j.last + 1
		}
		j.last = ev.EventID
		if ev.EventID <= j.state.Watermark {
			j.reached = ev.EventID
		}
		if j.target.Projection.Concerns(ev) {
			j.head = ev.EventID
			if j.hole == j.unit.NoEvent() && (!j.parked() || ev.EventID < j.parkedAt) {
				j.due = ev.EventID
			}
		}
	}
	if j.fold != nil && j.failed == nil {
		j.failed = j.fold.Add(upTo(events, j.state.Watermark))
	}
	if j.whole != nil {
		// If an event cannot be folded, projectors park the aggregate. The document as of
		// the events before it may still be missing.
		if j.parked() {
			events = upTo(events, j.parkedAt-1)
		}
		_ = j.whole.Add(events)
	}
}

// verdict returns a finding that does not depend on time, or a finding that counts only
// if it lasts (late). If both are nil, the read model is right.
func (j *judge) verdict() (finding, late *Finding) {
	w, none := j.state.Watermark, j.unit.NoEvent()
	if w == model.Erased {
		if j.last > none {
			f := j.finding(Behind, "the aggregate was erased, and has events again")
			f.erased, f.Watermark = true, none
			return f, nil
		}
		w = none
	}
	// The events of the read model were archived, so there is nothing to compare it with.
	archived := w > none && w <= j.before
	switch {
	case j.state.Err != nil:
		f := j.finding(Different, j.state.Err.Error())
		return f, nil
	case errors.Is(j.state.Unavailable, model.ErrSuperseded):
		return nil, j.finding(OldGeneration, errNewer(j.state.Unavailable).Error())
	case j.head == none && j.state.Document != nil:
		return j.finding(Extra, "none of the aggregate's events concerns the projection"), nil
	case archived:
	case w > none && j.hole > none && j.hole <= w && j.hole <= j.last:
		f := j.finding(Extra, fmt.Sprintf("the event store lacks event %d, which the read model has", j.hole))
		if j.target.Projection.HasSnapshots() {
			return nil, f // The events may just be archived, one after the other.
		}
		return f, nil
	case w > none && w > j.last:
		return j.finding(Extra, fmt.Sprintf("the watermark is beyond the last event in the store, %d", j.last)), nil
	case w > none && j.reached != w:
		return j.finding(Extra, fmt.Sprintf("the event store lacks event %d, which is the watermark", w)), nil
	case j.failed != nil:
		return j.content(WithoutValues(j.failed)), nil
	}
	if f := j.compare(); f != nil && !archived {
		return f, nil
	}
	if j.state.Foreign != nil {
		return nil, j.finding(OldGeneration, fmt.Sprintf("the document is of generation %d", j.state.Foreign.Generation))
	}
	switch {
	case w >= j.head:
		return nil, nil
	case j.parked() && w >= j.due:
		return nil, j.finding(Parked, "")
	}
	f := j.finding(Behind, "")
	f.anew = archived && w < j.before
	f.wrongContent = f.anew && j.state.Document != nil
	if j.whole != nil && j.whole.State() != nil {
		f.Kind = Missing
	}
	if f.Undelivered = !j.parked(); !f.Undelivered {
		f.Detail = fmt.Sprintf("the aggregate is parked at event %d, and the read model lacks events before it", j.parkedAt)
	}
	return nil, f
}

// compare compares the document with the fold up to its watermark.
func (j *judge) compare() *Finding {
	var want bson.Raw
	if j.fold != nil {
		want = j.fold.State()
	}
	switch have := j.state.Document; {
	case have == nil && want == nil:
		return nil
	case have == nil:
		return j.content("the watermark records that there is no document after that event, but the fold has one")
	case want == nil:
		return j.content("the fold of the events has no document")
	default:
		c := compare(want, have)
		if c.equal() {
			return nil
		}
		f := j.content("")
		f.Differences, f.More = c.found, c.more
		return f
	}
}

// content returns a finding about wrong content.
func (j *judge) content(detail string) *Finding {
	f := j.finding(Different, detail)
	if j.state.Document == nil {
		f.Kind = Missing
	}
	f.wrongContent = true
	return f
}

func (j *judge) finding(k Kind, detail string) *Finding {
	return &Finding{
		Projection: j.unit.Projection, Generation: max(j.unit.Generation, model.FirstGeneration), AggregateID: j.unit.AggregateID,
		Kind: k, Watermark: j.state.Watermark, Head: j.head, Detail: detail,
	}
}
