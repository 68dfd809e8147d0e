package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// Refold makes the read model of an aggregate, or its part of a view, from nothing but the events
// that the store has now. The watermark is at least floor, unless an event cannot be folded: then
// the aggregate is parked at that event. If the store has no event, the document or the part goes,
// and the watermark [model.Erased] stays.
//
// Refold takes effect also if the read model was right, because the events may have been changed
// or deleted in place. It can be repeated, and run at the same time as every other writer. The
// error is [model.ErrSuperseded] if the generation was replaced meanwhile.
func (w *Workers) Refold(ctx context.Context, t *engine.Target, aggregateID string, floor int64) error {
	for range maxRepairs {
		known, err := w.Events.Known(ctx, []string{aggregateID})
		var done bool
		switch {
		case err != nil:
		case known[aggregateID].Type == 0:
			done, err = w.forgetOnce(ctx, t.Unit(aggregateID), t)
		default:
			done, err = w.refoldOnce(ctx, t, aggregateID, &floor)
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
		if ok, err := w.writeRefolded(ctx, write); err != nil || !ok {
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
	return w.writeRefolded(ctx, write)
}

// refoldOnce makes one attempt. If another writer was faster, it returns false.
func (w *Workers) refoldOnce(ctx context.Context, t *engine.Target, id string, floor *int64) (done bool, err error) {
	u := t.Unit(id)
	state, err := w.load(ctx, u)
	if err != nil {
		return false, err
	}
	raise := func(watermark int64) {
		// An erased aggregate can have events again. These count anew.
		if watermark != model.Erased {
			*floor = max(*floor, watermark)
		}
	}
	raise(state.Watermark)
	if document := state.Document != nil; document && !u.Parts {
		w.Store.Release([]model.State{state})
		if ok, err := w.Repairer.SetAside(ctx, u, state.Watermark); err != nil || !ok {
			return false, err
		}
		if state, err = w.load(ctx, u); err != nil {
			return false, err
		}
	}
	defer w.Store.Release([]model.State{state})
	switch {
	case state.Err != nil:
		return false, fmt.Errorf("%w; delete the document by hand, and repeat the command", state.Err)
	case state.Unavailable != nil:
		return false, state.Unavailable
	case state.Document != nil && !u.Parts:
		return false, nil // A live writer has replaced the document that was set aside.
	}
	if f := state.Foreign; f != nil {
		raise(f.Watermark)
	}
	// The events must be read after SetAside: see readmodel.Repairer.
	fold, failed, raw, err := w.foldAll(ctx, t, id)
	if err != nil {
		return false, err
	}
	if failed != nil {
		if err := w.park(ctx, u, raw, &Finding{Head: *floor}, failed); err != nil {
			return false, err
		}
	}
	write, ok := refolded(u, t, fold, state, failed == nil, *floor)
	switch {
	case !ok && state.Foreign == nil:
		return true, nil
	case !ok:
		_, err := w.Repairer.RemoveForeign(ctx, u, *state.Foreign)
		return err == nil, err
	}
	return w.writeRefolded(ctx, write)
}

// writeRefolded writes, and reports whether the write took effect.
func (w *Workers) writeRefolded(ctx context.Context, write model.Write) (bool, error) {
	written, err := w.Store.Write(ctx, []model.Write{write})
	if err != nil {
		return false, err
	}
	switch written[0].Status {
	case model.Applied:
		return true, nil
	case model.Rejected, model.Conflict:
		return false, errors.New(WithoutValues(written[0].Err))
	}
	if errors.Is(written[0].Err, model.ErrSuperseded) {
		return false, written[0].Err
	}
	return false, nil
}

// foldAll folds the events that the store has, up to one that cannot be folded. Deleted events are
// no gap here.
func (w *Workers) foldAll(ctx context.Context, t *engine.Target, id string) (fold *projection.Accumulator, failed error, raw bson.RawValue, err error) {
	known, err := w.Events.Known(ctx, []string{id})
	if err != nil {
		return nil, nil, raw, err
	}
	a := aggregate{id: id, raw: known[id]}
	fold = t.Projection.Begin(nil, 0)
	err = w.readFrom(ctx, &a, 1, bson.Timestamp{}, func(events []*event.Event) {
		if failed == nil {
			if e := fold.Add(events); e != nil {
				failed = e
			}
		}
	})
	return fold, failed, a.raw, err
}

// refolded returns the write that gives a unit the result of the fold; false if there is nothing to
// write.
func refolded(u model.Unit, t *engine.Target, fold *projection.Accumulator, state model.State, complete bool, floor int64) (model.Write, bool) {
	to := fold.Last()
	if complete {
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
	return write, changes && (floor > 0 || fold.Concerned())
}
