package memory

import (
	"bytes"
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// maxDocument is MongoDB's limit for the size of a document.
const maxDocument = 16 << 20

// Load returns the state of each unit.
func (s *Stores) Load(_ context.Context, units []model.Unit) ([]model.State, error) {
	err := s.open()
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	states := make([]model.State, len(units))
	for i := range units {
		states[i] = s.state(&units[i])
	}
	return states, nil
}

// Release does nothing: memory is not bounded here.
func (*Stores) Release([]model.State) {}

// Watermarks returns the state of each unit without its document.
func (s *Stores) Watermarks(ctx context.Context, units []model.Unit) ([]model.State, error) {
	states, err := s.Load(ctx, units)
	for i := range states {
		states[i].Document = nil
	}
	return states, err
}

// Documents returns the whole documents of a collection by aggregate.
func (s *Stores) Documents(collection string) map[string]bson.Raw {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]bson.Raw{}
	for at, document := range s.documents {
		if at.collection == collection {
			found[at.aggregateID] = document
		}
	}
	return found
}

func (s *Stores) state(u *model.Unit) model.State {
	if u.Parts {
		p := s.parts[keyOf(u)]
		return model.State{Document: p.document, Watermark: p.watermark, UpdatedAt: p.updatedAt}
	}
	side := s.sides[keyOf(u)]
	document := s.documents[place{u.Collection, u.AggregateID}]
	if document == nil {
		return model.State{Watermark: side}
	}
	switch watermark, generation := positionOf(document); {
	case generation > own(u):
		return model.State{Unavailable: fmt.Errorf("load %s of %s, of which there is generation %d: %w", u.AggregateID, u.Projection, generation, model.ErrSuperseded)}
	case generation < own(u):
		return model.State{Watermark: side, Foreign: &model.Foreign{Generation: generation, Watermark: watermark}}
	default:
		return model.State{Document: document, Watermark: watermark}
	}
}

// own returns the generation of a unit, counted from 1.
func own(u *model.Unit) int64 { return max(u.Generation, model.FirstGeneration) }

// positionOf reads the engine's fields of a document.
func positionOf(document bson.Raw) (watermark, generation int64) {
	watermark, _ = document.Lookup(model.FieldLastEventID).AsInt64OK()
	generation, ok := document.Lookup(model.FieldLastGeneration).AsInt64OK()
	if !ok {
		generation = model.FirstGeneration
	}
	return watermark, generation
}

// Write applies writes one after another, each under its guard.
func (s *Stores) Write(_ context.Context, writes []model.Write) ([]model.Written, error) {
	err := s.open()
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	written := make([]model.Written, len(writes))
	for i := range writes {
		w := &writes[i]
		if w.Parts {
			var changed bool
			written[i], changed = s.contribute(w)
			if changed {
				if err := s.changed(); err != nil {
					return nil, err
				}
			}
			continue
		}
		at, side := place{w.Collection, w.AggregateID}, keyOf(&w.Unit)
		document, watermark := s.documents[at], s.sides[side]
		if written[i], err = s.write(w); err != nil {
			return nil, err
		}
		if watermark != s.sides[side] || !bytes.Equal(document, s.documents[at]) {
			if err := s.changed(); err != nil {
				return nil, err
			}
		}
	}
	return written, nil
}

// RemoveForeign deletes exactly the given document of an older generation with the unit's
// aggregate id, and reports whether it still existed.
func (s *Stores) RemoveForeign(_ context.Context, u model.Unit, foreign model.Foreign) (bool, error) {
	err := s.open()
	defer s.mu.Unlock()
	if err != nil {
		return false, err
	}
	return s.removeForeign(&u, &foreign), nil
}

func (s *Stores) removeForeign(u *model.Unit, foreign *model.Foreign) bool {
	at := place{u.Collection, u.AggregateID}
	if !is(s.documents[at], foreign) {
		return false
	}
	delete(s.documents, at)
	return true
}

// is reports whether a document is the given foreign one.
func is(document bson.Raw, foreign *model.Foreign) bool {
	if document == nil {
		return false
	}
	watermark, generation := positionOf(document)
	return watermark == foreign.Watermark && generation == foreign.Generation
}

// write applies a write. If the write creates no document, it then removes the document
// of an older generation, like the store on a server.
func (s *Stores) write(w *model.Write) (model.Written, error) {
	written, err := s.guarded(w)
	if err != nil || w.Foreign == nil || w.Kind == model.Create || written.Status != model.Applied {
		return written, err
	}
	if !s.removeForeign(&w.Unit, w.Foreign) && s.documents[place{w.Collection, w.AggregateID}] != nil {
		written.Status = model.Stale
	}
	return written, nil
}

func (s *Stores) guarded(w *model.Write) (model.Written, error) {
	at, side := place{w.Collection, w.AggregateID}, keyOf(&w.Unit)
	if size := max(len(w.Document), len(w.Update)); size > maxDocument {
		return rejected(size), nil
	}
	document := s.documents[at]
	watermark, generation := positionOf(document)
	exists, matches := document != nil, document != nil && generation == own(&w.Unit)
	switch w.Kind {
	case model.Update:
		switch {
		case matches && watermark == w.From:
			next, err := updated(document, w.Update, w.To)
			if err != nil {
				return model.Written{}, fmt.Errorf("update %s of %s: %w", w.AggregateID, w.Projection, err)
			}
			if len(next) > maxDocument {
				return rejected(len(next)), nil
			}
			s.documents[at] = next
		case matches && watermark == w.To:
			// Another writer has folded the same events.
		default:
			return model.Written{Status: model.Stale}, nil
		}
	case model.Create:
		free := !exists
		if w.Foreign != nil {
			free = is(document, w.Foreign)
			if !w.Deletes && matches && watermark == w.To {
				// Another writer has folded the same events.
				return model.Written{Status: model.Applied}, nil
			}
		}
		if !free || w.Deletes && s.sides[side] != w.From {
			return model.Written{Status: model.Stale}, nil
		}
		next, err := created(w, w.AggregateID, w.Document)
		if err != nil {
			return model.Written{}, fmt.Errorf("create %s of %s: %w", w.AggregateID, w.Projection, err)
		}
		s.documents[at] = next
	case model.MoveWatermark, model.Delete, model.Erase:
		s.sides[side] = max(s.sides[side], w.To)
		switch {
		case w.Kind == model.Delete && matches && watermark == w.From, w.Kind == model.Erase && matches && watermark <= w.To:
			delete(s.documents, at)
		case w.Kind == model.Delete && exists && generation >= own(&w.Unit):
			return model.Written{Status: model.Stale}, nil
		}
	default:
		return model.Written{}, fmt.Errorf("write %s of %s: there is no kind %d", w.AggregateID, w.Projection, w.Kind)
	}
	return model.Written{Status: model.Applied}, nil
}

func rejected(size int) model.Written {
	return model.Written{Status: model.Rejected, Err: fmt.Errorf("the document has %d bytes, more than MongoDB's %d", size, maxDocument)}
}
