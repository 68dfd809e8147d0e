package history

import (
	"cmp"
	"context"
	"fmt"

	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// Refold makes the read model of an aggregate, or its part of a view, from nothing but the events
// that the store has now. If an event is missing or cannot be folded, the aggregate is parked at
// that event. If the store has no event, the document or the part goes, and the watermark
// [model.Erased] stays, until there are events again.
//
// Refold takes effect also if the read model was right, because the events may have been changed
// or deleted in place. It can be repeated, and run at the same time as every other writer. The
// error is [model.ErrSuperseded] if the generation was replaced meanwhile.
func (w *Workers) Refold(ctx context.Context, t *engine.Target, aggregateID string) error {
	for range maxRepairs {
		known, err := w.Events.Known(ctx, []string{aggregateID})
		a, done := &aggregate{id: aggregateID, raw: known[aggregateID]}, false
		switch {
		case err != nil:
		case a.raw.Type == 0:
			done, err = w.forgetOnce(ctx, t.Unit(aggregateID), t)
		default:
			done, err = w.refoldOnce(ctx, t, a)
		}
		if err != nil {
			return fmt.Errorf("fold the aggregate again into %s: %w", t, err)
		}
		if done {
			return nil
		}
	}
	return errContended
}

// forgetOnce makes one attempt to remove all that a unit has. If another writer was faster, it
// returns false.
func (w *Workers) forgetOnce(ctx context.Context, u model.Unit, t *engine.Target) (done bool, err error) {
	write := model.Write{Unit: u, Kind: model.MoveWatermark, To: model.Erased, View: t.Projection.View(), Building: t.Building}
	if !u.Parts {
		// The watermark comes first: otherwise a message could create the document anew.
		if ok, err := w.write(ctx, write); err != nil || !ok {
			return false, err
		}
		if err := w.Repairer.Remove(ctx, u); err != nil {
			return false, err
		}
	}
	state, err := w.load(ctx, u)
	if err != nil {
		return false, err
	}
	w.Store.Release([]model.State{state})
	switch {
	case state.Err != nil || state.Unavailable != nil:
		return false, cmp.Or(state.Err, state.Unavailable)
	case !u.Parts || state.Document == nil && state.Watermark == model.Erased:
		return state.Document == nil && state.Foreign == nil, nil
	}
	write.From, write.UpdatedAt = state.Watermark, state.UpdatedAt
	return w.write(ctx, write)
}

// refoldOnce makes one attempt. If another writer was faster, it returns false.
func (w *Workers) refoldOnce(ctx context.Context, t *engine.Target, a *aggregate) (done bool, err error) {
	u := t.Unit(a.id)
	state, err := w.load(ctx, u)
	if err != nil {
		return false, err
	}
	w.Store.Release([]model.State{state})
	if state.Watermark == model.Erased {
		return false, w.Repairer.Readmit(ctx, u, state.Watermark)
	}
	state, ok, err := w.loadAside(ctx, u, state.Watermark, state.Document != nil)
	if err != nil || !ok {
		return false, err
	}
	defer w.Store.Release([]model.State{state})
	if state.Document != nil && !u.Parts {
		return false, nil // A live writer has replaced the document that was set aside.
	}
	fold, _, err := w.foldOrPark(ctx, t, a, nil, u.FirstEvent())
	if err != nil {
		return false, err
	}
	to := max(fold.Last(), u.NoEvent())
	if to < state.Watermark && !u.Parts {
		// A writer only raises the watermark of a unit without a document.
		return false, w.Repairer.Readmit(ctx, u, state.Watermark)
	}
	write, ok := refolded(u, t, fold, state, to)
	switch {
	case ok:
		return w.write(ctx, write)
	case state.Foreign != nil:
		_, err = w.Repairer.RemoveForeign(ctx, u, *state.Foreign)
	}
	return err == nil, err
}

// refolded returns the write that gives a unit the result of the fold; false if there is nothing to
// write.
func refolded(u model.Unit, t *engine.Target, fold *projection.Accumulator, state model.State, to int64) (model.Write, bool) {
	if fold.State() != nil {
		write, _ := fold.Write(u, state)
		write.Building = t.Building
		return write, true
	}
	write := model.Write{
		Unit: u, Kind: model.MoveWatermark, From: state.Watermark, To: to, UpdatedAt: state.UpdatedAt,
		Foreign: state.Foreign, View: t.Projection.View(), Building: t.Building,
	}
	changes := to != state.Watermark || u.Parts && state.Document != nil
	return write, changes && (state.Watermark > u.NoEvent() || state.Foreign != nil || fold.Concerned())
}
