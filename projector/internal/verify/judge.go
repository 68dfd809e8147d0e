package verify

import (
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Fold folds the events of one aggregate, in the order of their ids.
type Fold interface {
	// Add folds the next events. An error says that one of them cannot be folded; the
	// fold then stands before that event.
	Add(events []*event.Event) error
	// Last is the last event that was folded; 0 if none was.
	Last() int64
	// State gives the own fields of the document; nil if there is none.
	State() bson.Raw
	// Write gives the write that brings a unit from the state that the fold began with to
	// the last event; false if there is nothing to write.
	Write(u model.Unit, from model.State) (model.Write, bool)
}

// Subject is what is verified: one generation of a projection.
type Subject struct {
	// Unit is that of the generation, without an aggregate.
	Unit model.Unit
	// Begin starts a fold from a stored document, or from nothing if that is nil. Events
	// after until are ignored; 0 means that none is.
	Begin func(stored bson.Raw, until int64) Fold
	// Concerns reports whether an event is of an aggregate type that concerns the projection.
	Concerns func(ev *event.Event) bool
}

// unit is that of an aggregate.
func (s *Subject) unit(aggregateID string) model.Unit {
	u := s.Unit
	u.AggregateID = aggregateID
	return u
}

// judge holds what is stored for one aggregate against its events. It is given all of
// them, in order and part by part.
type judge struct {
	subject *Subject
	unit    model.Unit
	strict  bool
	state   model.State
	// fold is up to the watermark; nil if that is 0. failed is why it stopped.
	fold   Fold
	failed error
	// last is the last event, and head the last one that concerns the projection.
	last, head int64
	// reached is the last event up to the watermark.
	reached int64
	// hole is the first event that the store lacks in a strict sequence; 0 if none.
	hole int64
	// whole folds all events if there is no document, to report whether one is missing.
	whole Fold
}

func newJudge(s *Subject, aggregateID string, strict bool, state model.State) *judge {
	j := &judge{subject: s, unit: s.unit(aggregateID), strict: strict, state: state}
	if state.Watermark > 0 {
		j.fold = s.Begin(nil, state.Watermark)
	}
	if state.Document == nil {
		j.whole = s.Begin(nil, 0)
	}
	return j
}

// add takes the next events.
func (j *judge) add(events []*event.Event) {
	for _, ev := range events {
		if ev.EventID <= j.last {
			continue
		}
		if j.strict && j.hole == 0 && ev.EventID != j.last+1 {
			j.hole = j.last + 1
		}
		j.last = ev.EventID
		if ev.EventID <= j.state.Watermark {
			j.reached = ev.EventID
		}
		if j.subject.Concerns(ev) {
			j.head = ev.EventID
		}
	}
	if j.fold != nil && j.failed == nil {
		j.failed = j.fold.Add(events)
	}
	if j.whole != nil {
		// Where it fails, the aggregate is to be parked; the document of the events
		// before that may still be missing.
		_ = j.whole.Add(events)
	}
}

// verdict is what the judge has found: a finding that stands whatever time it is, or one
// that counts only if it lasts (late). Both nil means that all is right.
func (j *judge) verdict() (finding, late *Finding) {
	w := j.state.Watermark
	switch {
	case j.state.Err != nil:
		f := j.finding(Different, j.state.Err.Error())
		return f, nil
	case errors.Is(j.state.Unavailable, model.ErrSuperseded):
		return nil, j.finding(OldGeneration, j.state.Unavailable.Error())
	case j.head == 0 && j.state.Document != nil:
		return j.finding(Extra, "none of the aggregate's events concerns the projection"), nil
	case w > 0 && j.hole > 0 && j.hole <= w && j.hole <= j.last:
		return j.finding(Extra, fmt.Sprintf("the event store lacks event %d, which the read model has", j.hole)), nil
	case w > 0 && w > j.last:
		return j.finding(Extra, fmt.Sprintf("the watermark is beyond the last event in the store, %d", j.last)), nil
	case w > 0 && j.reached != w:
		return j.finding(Extra, fmt.Sprintf("the event store lacks event %d, which is the watermark", w)), nil
	case j.failed != nil:
		return j.content(fmt.Sprintf("an event up to the watermark cannot be folded: %v", j.failed)), nil
	}
	if f := j.compare(); f != nil {
		return f, nil
	}
	if j.state.Foreign != nil {
		return nil, j.finding(OldGeneration, fmt.Sprintf("the document is of generation %d", j.state.Foreign.Generation))
	}
	if w < j.head {
		if j.state.Document == nil && j.whole.State() != nil {
			return nil, j.finding(Missing, "")
		}
		return nil, j.finding(Behind, "")
	}
	return nil, nil
}

// compare holds the document against the fold up to its watermark.
func (j *judge) compare() *Finding {
	var want bson.Raw
	if j.fold != nil {
		want = j.fold.State()
	}
	switch have := j.state.Document; {
	case have == nil && want == nil:
		return nil
	case have == nil:
		f := j.finding(Missing, "the watermark says that there is no document as of that event, and the fold has one")
		f.wrongContent = true
		return f
	case want == nil:
		return j.content("the fold of the events has no document")
	default:
		c := compare(want, have)
		if c.equal() {
			return nil
		}
		f := j.content("")
		if !c.others {
			f.Kind = TypeOnly
		}
		f.Differences, f.More = c.found, c.more
		return f
	}
}

// content is a finding about a document that is wrong.
func (j *judge) content(detail string) *Finding {
	f := j.finding(Different, detail)
	f.wrongContent = true
	return f
}

func (j *judge) finding(k Kind, detail string) *Finding {
	return &Finding{
		Projection: j.unit.Projection, Generation: max(j.unit.Generation, model.FirstGeneration), AggregateID: j.unit.AggregateID,
		Kind: k, Watermark: j.state.Watermark, Head: j.head, Detail: detail,
	}
}
