package history_test

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection/authoring"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// This file makes the simulation the read models, the parked list and the store of findings.

func (w *simulation) Load(_ context.Context, units []model.Unit) ([]model.State, error) {
	w.step()
	if w.loads != nil {
		w.loads()
	}
	states := make([]model.State, len(units))
	for i, u := range units {
		states[i] = w.state(u.AggregateID)
		if states[i].Document != nil || states[i].Foreign != nil || states[i].Err != nil || states[i].Unavailable != nil {
			continue
		}
		// The real loader reads the document first and the side watermark later.
		w.step()
		states[i] = model.State{Watermark: w.of(u.AggregateID).side}
		if u.Deletes && states[i].Watermark > 0 {
			w.step()
			states[i] = w.state(u.AggregateID)
		}
	}
	return states, nil
}

func (w *simulation) Release([]model.State) {}

func (w *simulation) Write(_ context.Context, writes []model.Write) ([]model.Written, error) {
	w.step()
	written := make([]model.Written, len(writes))
	for i, change := range writes {
		if written[i] = w.carryOut(change, change.Document); written[i].Status == model.Applied {
			w.prove(change.AggregateID)
		}
	}
	return written, nil
}

func (w *simulation) SetAside(_ context.Context, u model.Unit, watermark int64) (bool, error) {
	w.step()
	s, now := w.of(u.AggregateID), w.state(u.AggregateID)
	if now.Document == nil || now.Watermark != watermark {
		return false, nil
	}
	s.document = documentOf(u.AggregateID, watermark, 0, projectiontest.Sorted(projectiontest.Content(s.document)))
	return true, nil
}

// Remove is never called: no simulated aggregate is erased.
func (*simulation) Remove(context.Context, model.Unit) error { return nil }

func (w *simulation) RemoveForeign(_ context.Context, u model.Unit, foreign model.Foreign) (bool, error) {
	w.step()
	s, now := w.of(u.AggregateID), w.state(u.AggregateID)
	if now.Foreign == nil || *now.Foreign != foreign {
		return false, nil
	}
	s.document = nil
	return true, nil
}

// prove records in w.wrong if a document differs from the fold of its events. It is called
// after every write of the verifier, because a later look would repair the document again.
func (w *simulation) prove(id string) {
	state := w.state(id)
	if state.Document == nil {
		return
	}
	acc := w.projection.Begin(nil, state.Watermark)
	if err := acc.Add(w.store[id]); err != nil {
		w.tb.Fatal(err)
	}
	if changes, _ := authoring.Changes(acc.State(), state.Document); len(changes) > 0 {
		w.wrong = append(w.wrong, fmt.Sprintf("%s at event %d: %+v", id, state.Watermark, changes))
	}
}

func (w *simulation) Parked(_ context.Context, units []model.Unit) ([]model.Position, error) {
	w.step()
	positions := make([]model.Position, len(units))
	for i, u := range units {
		positions[i] = w.parked[u.AggregateID]
	}
	return positions, nil
}

func (w *simulation) Park(_ context.Context, markers []model.Marker) error {
	w.step()
	for _, m := range markers {
		w.parked[m.AggregateID] = model.Position{EventID: m.EventID, Resumes: m.Resumes}
	}
	return nil
}

func (w *simulation) list(after string, limit int, has func(*stored) bool) []string {
	w.step()
	var ids []string
	for id, s := range w.models {
		if id > after && has(s) {
			ids = append(ids, id)
		}
	}
	sort.Strings(ids)
	return ids[:min(len(ids), limit)]
}

func (w *simulation) Documents(_ context.Context, _ model.Unit, after string, limit int) ([]string, error) {
	return w.list(after, limit, func(s *stored) bool { return s.document != nil }), nil
}

func (w *simulation) Listed(_ context.Context, _ model.Unit, ids []string) ([]string, error) {
	return w.list("", len(w.models), func(s *stored) bool {
		return s.document != nil && slices.ContainsFunc(ids, func(id string) bool { return w.models[id] == s })
	}), nil
}

func (w *simulation) Odd(context.Context, model.Unit, int) ([]string, error) { return w.odd, nil }

func (w *simulation) Watermarks(_ context.Context, _ model.Unit, after string, limit int) ([]string, error) {
	return w.list(after, limit, func(s *stored) bool { return s.hasSide }), nil
}

func (w *simulation) Put(_ context.Context, f history.Finding) error {
	w.put = append(w.put, f)
	return nil
}
