package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// Refold makes the read model of an aggregate, or its part of a view, from nothing but the events
// that the store has now, up to one that is missing. Those up to floor may be missing. The watermark
// is at least floor, unless an event cannot be folded: then the aggregate is parked at that event.
// If the store has no event, the document or the part goes, and the watermark [model.Erased] stays,
// until there are events again.
//
// Refold takes effect also if the read model was right, because the events may have been changed
// or deleted in place. It can be repeated, and run at the same time as every other writer. The
// error is [model.ErrSuperseded] if the generation was replaced meanwhile.
func (w *Workers) Refold(ctx context.Context, t *engine.Target, aggregateID string, floor int64) error {
	for range maxRepairs {
		known, err := w.Events.Known(ctx, []string{aggregateID})
		a, done := &aggregate{id: aggregateID, raw: known[aggregateID]}, false
		switch {
		case err != nil:
		case a.raw.Type == 0:
			done, err = w.forgetOnce(ctx, t.Unit(aggregateID), t)
		default:
			done, err = w.refoldOnce(ctx, t, a, &floor)
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
func (w *Workers) refoldOnce(ctx context.Context, t *engine.Target, a *aggregate, floor *int64) (done bool, err error) {
	u := t.Unit(a.id)
	state, err := w.load(ctx, u)
	if err != nil {
		return false, err
	}
	w.Store.Release([]model.State{state})
	if state.Watermark == model.Erased {
		return false, w.Repairer.Readmit(ctx, u)
	}
	*floor = max(*floor, state.Watermark)
	state, ok, err := w.loadAside(ctx, u, state.Watermark, state.Document != nil)
	if err != nil || !ok {
		return false, err
	}
	defer w.Store.Release([]model.State{state})
	if state.Document != nil && !u.Parts {
		return false, nil // A live writer has replaced the document that was set aside.
	}
	if f := state.Foreign; f != nil {
		*floor = max(*floor, f.Watermark)
	}
	fold, failed, err := w.foldFrom(ctx, t, a, nil, u.FirstEvent(), *floor)
	if err != nil {
		return false, err
	}
	if err := w.park(ctx, u, a.raw, *floor, failed); err != nil {
		return false, err
	}
	_, parked := errors.AsType[*projection.Error](failed)
	write, changes := refolded(u, t, fold, state, parked, *floor)
	switch {
	case !changes && state.Foreign == nil:
		return true, nil
	case !changes:
		_, err := w.Repairer.RemoveForeign(ctx, u, *state.Foreign)
		return err == nil, err
	}
	return w.write(ctx, write)
}

// refolded returns the write that gives a unit the result of the fold; false if there is nothing to
// write.
func refolded(u model.Unit, t *engine.Target, fold *projection.Accumulator, state model.State, parked bool, floor int64) (model.Write, bool) {
	to := fold.Last()
	if !parked {
		to = max(to, floor)
	}
	if fold.State() != nil {
		write, _ := fold.Write(u, state)
		write.To, write.Building = to, t.Building
		return write, true
	}
	write := model.Write{
		Unit: u, Kind: model.MoveWatermark, From: state.Watermark, To: max(to, state.Watermark), UpdatedAt: state.UpdatedAt,
		Foreign: state.Foreign, View: t.Projection.View(), Building: t.Building,
	}
	changes := to > state.Watermark || u.Parts && state.Document != nil
	return write, changes && (floor > u.NoEvent() || fold.Concerned())
}
