package history

import (
	"context"
	"errors"
	"fmt"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// load loads the state of one unit. The caller releases it.
func (w *Workers) load(ctx context.Context, u model.Unit) (model.State, error) {
	for {
		states, err := w.Store.Load(ctx, []model.Unit{u})
		if err != nil {
			return model.State{}, fmt.Errorf("load %s: %w", u.AggregateID, err)
		}
		state := states[0]
		if state.Deferred {
			// Load waits until there is memory for one document.
			w.Store.Release(states)
			continue
		}
		if err := unavailable(&state); err != nil {
			w.Store.Release(states)
			return model.State{}, fmt.Errorf("load %s: %w", u.AggregateID, err)
		}
		return state, nil
	}
}

// unavailable returns the error of a state that could not be loaded. A document of a
// newer generation is no such error: it is reported as a finding.
func unavailable(s *model.State) error {
	if errors.Is(s.Unavailable, model.ErrSuperseded) {
		return nil
	}
	return s.Unavailable
}

// maxLooks bounds how often one call checks an aggregate that changes between two reads.
const maxLooks = 5

// look checks one aggregate. finding does not depend on time; late counts only if it
// lasts, and has the kind Parked if the aggregate is parked and has every event before the
// one that parked it. If both are nil, the read model is right. look also sets the raw id of the
// aggregate.
func (w *Workers) look(ctx context.Context, t *engine.Target, a *aggregate) (finding, late *Finding, err error) {
	known, err := w.Events.Known(ctx, []string{a.id})
	if err != nil {
		return nil, nil, err
	}
	a.raw = known[a.id]
	u := t.Unit(a.id)
	for range maxLooks {
		before, err := w.parked(ctx, u)
		if err != nil {
			return nil, nil, err
		}
		state, err := w.load(ctx, u)
		if err != nil {
			return nil, nil, err
		}
		j := newJudge(t, a.id, state, before.EventID)
		err = w.readFrom(ctx, a, math.MinInt64, bson.Timestamp{}, j.add)
		if err == nil {
			finding, late = j.verdict()
		}
		w.Store.Release([]model.State{state})
		if err != nil || finding != nil || late == nil {
			return finding, nil, err
		}
		after, err := w.parked(ctx, u)
		if err != nil {
			return nil, nil, err
		}
		if after == before { // It was not parked meanwhile, nor resumed.
			return nil, late, nil
		}
	}
	return nil, late, nil
}

// parked returns at which event a unit is parked.
func (w *Workers) parked(ctx context.Context, u model.Unit) (model.Position, error) {
	positions, err := w.Parking.Parked(ctx, []model.Unit{u})
	if err != nil {
		return model.Position{}, fmt.Errorf("look up whether %s is parked: %w", u.AggregateID, err)
	}
	return positions[0], nil
}
