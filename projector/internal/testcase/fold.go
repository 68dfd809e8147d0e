package testcase

import (
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// State is what the events so far make.
type State struct {
	// Documents are documents by projection and aggregate, with _id and lastEventId. Those of
	// a view are by their keys instead.
	Documents map[string]map[string]bson.Raw
	Parked    []Parked
	// Homeless are the aggregates of each view whose parts contribute to no document.
	Homeless map[string][]string
}

// Parked is an aggregate that is parked in a projection.
type Parked struct {
	Projection, AggregateID string
	EventID                 int64
	Reason, Error           string
}

func newState() State {
	return State{Documents: map[string]map[string]bson.Raw{}, Homeless: map[string][]string{}}
}

func (s State) document(projection, aggregate string) bson.RawValue {
	document := s.Documents[projection][aggregate]
	if document == nil {
		return bson.RawValue{}
	}
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: document}
}

func (s State) parked(projection, aggregate string) *Parked {
	for i := range s.Parked {
		if p := &s.Parked[i]; p.Projection == projection && p.AggregateID == aggregate {
			return p
		}
	}
	return nil
}

// folded is one projection with all that its events have made.
type folded struct {
	*projection.Projection
	units map[string]*unit
	// documents are those of a view, by key.
	documents map[string]bson.Raw
}

// unit is one aggregate of a projection.
type unit struct {
	// state is the document or, for a view, the part; nil if there is none.
	state     projection.State
	watermark int64
	parked    *Parked
}

func newFolded(p *projection.Projection) *folded {
	return &folded{Projection: p, units: map[string]*unit{}, documents: map[string]bson.Raw{}}
}

// fold folds consecutive events of one aggregate together. An event that fails parks the
// aggregate, and its later events change nothing.
func (f *folded) fold(events []*event.Event) {
	id := events[0].AggregateID
	u := f.units[id]
	if u == nil {
		u = &unit{}
		f.units[id] = u
	}
	if u.parked != nil {
		return
	}
	result := f.Fold(u.state, events)
	if n := result.Folded; n > 0 {
		next := &unit{state: result.State(), watermark: events[n-1].EventID}
		if f.View() != nil {
			next.state = result.Document
		}
		if err := f.replace(id, u, next); err != nil && len(events) > 1 {
			f.each(events) // to find the event that fails
			return
		} else if err != nil {
			u.parked = f.park(events[0], projection.ReasonRejected, err)
			return
		}
		u = next
	}
	if result.Err != nil {
		u.parked = f.park(events[result.Folded], result.Err.Reason, result.Err.Err)
	}
}

// each folds each event by itself.
func (f *folded) each(events []*event.Event) {
	for i := range events {
		f.fold(events[i : i+1])
	}
}

func (f *folded) park(ev *event.Event, reason projection.Reason, err error) *Parked {
	return &Parked{Projection: f.Name(), AggregateID: ev.AggregateID, EventID: ev.EventID, Reason: string(reason), Error: err.Error()}
}

// replace replaces a unit, and for a view also the documents to which its part contributes. It
// replaces nothing if a document cannot be made.
func (f *folded) replace(id string, before, after *unit) error {
	f.units[id] = after
	view := f.View()
	if view == nil {
		return nil
	}
	changed := map[string]bson.Raw{}
	for _, key := range slices.Concat(view.Keys(before.state), view.Keys(after.state)) {
		document, err := model.Whole(view, key, f.parts())
		if err != nil {
			f.units[id] = before
			return fmt.Errorf("document %s: %w", key, err)
		}
		changed[key] = document
	}
	maps.Copy(f.documents, changed)
	return nil
}

func (f *folded) parts() []model.Part {
	parts := make([]model.Part, 0, len(f.units))
	for _, id := range slices.Sorted(maps.Keys(f.units)) {
		parts = append(parts, model.Part{AggregateID: id, Document: f.units[id].state})
	}
	return parts
}

// addTo adds what the projection has made to a state.
func (f *folded) addTo(s *State) {
	documents, view := map[string]bson.Raw{}, f.View()
	for _, id := range slices.Sorted(maps.Keys(f.units)) {
		u := f.units[id]
		if u.parked != nil {
			s.Parked = append(s.Parked, *u.parked)
		}
		switch {
		case u.state == nil:
		case view == nil:
			documents[id] = stored(id, u.state, bson.E{Key: model.FieldLastEventID, Value: u.watermark})
		case len(view.Keys(u.state)) == 0:
			s.Homeless[f.Name()] = append(s.Homeless[f.Name()], id)
		}
	}
	for key, document := range f.documents {
		if document != nil {
			documents[key] = stored(key, document)
		}
	}
	s.Documents[f.Name()] = documents
}

// stored returns a document with its id and further fields before its own.
func stored(id string, own bson.Raw, more ...bson.E) bson.Raw {
	d := append(bson.D{{Key: model.FieldID, Value: id}}, more...)
	for _, e := range elementsOf(own) {
		d = append(d, bson.E{Key: e.Key(), Value: e.Value()})
	}
	return valueOf(d).Document()
}
