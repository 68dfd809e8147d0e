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

// maxRepairs bounds the attempts of a repair while other writers are faster. An attempt on a view
// takes 5 s while the transaction of a killed process is open, which the server ends after a minute.
const maxRepairs = 20

// errContended is returned if other writers were faster at every attempt.
var errContended = errors.New("other processes kept changing the read model; verify again")

// errExtra says why a finding of the kind [Extra] is not repaired.
func errExtra(f *Finding) error {
	return fmt.Errorf("%s, and a repair deletes no read model: put events back that are missing, or delete all events of the aggregate and run \"projector erase\"; delete by hand a read model that the projector did not write", f.Detail)
}

// errErased says why a job leaves an erased aggregate that has events again, unless it is about that
// aggregate alone, or about a generation that is being built: that one applies all events.
func errErased(aggregateID string) error {
	return fmt.Errorf("a message from before the erasure could bring its data back: if none can be under way any more, run \"projector verify --aggregate %s --repair\"", aggregateID)
}

// errNewer adds the remedy to the error of a document of a newer generation. After a restore,
// or a change by hand, no process writes that generation.
func errNewer(err error) error {
	return fmt.Errorf("%w; if no rebuild of the projection has just ended, \"projector projections rebuild\" replaces the document", err)
}

// errNothing is in the error of an attempt for which the events give nothing to write. A live
// writer can have replaced the document in the middle of the attempt, so that another one
// succeeds.
var errNothing = errors.New("nothing to write")

func nothing(f *Finding) error {
	return fmt.Errorf("%w: %s, and the events in the event store give no other read model: put events back that are missing, or delete all events of the aggregate and run \"projector erase\"", errNothing, cmp.Or(f.Detail, "the read model is "+string(f.Kind)))
}

// repair repairs an aggregate's read model, or returns the reason why it could not.
func (w *Workers) repair(ctx context.Context, t *engine.Target, a *aggregate) error {
	last := errContended
	for range maxRepairs {
		finding, late, err := w.look(ctx, t, a)
		switch {
		case err != nil:
			return err
		case finding == nil && (late == nil || late.Kind == Parked):
			return nil
		case finding == nil:
			finding = late
		}
		switch {
		case finding.Kind == Extra:
			return errExtra(finding)
		case finding.erased:
			if err := w.Repairer.Readmit(ctx, t.Unit(a.id), model.Erased); err != nil {
				return err
			}
			continue
		}
		switch err := w.repairOnce(ctx, t, a, finding); {
		case errors.Is(err, errNothing):
			last = err
		case err != nil:
			return err
		default:
			last = errContended
		}
	}
	return last
}

// repairOnce makes one attempt. If another writer was faster, it returns nil.
func (w *Workers) repairOnce(ctx context.Context, t *engine.Target, a *aggregate, f *Finding) error {
	u := t.Unit(a.id)
	state, ok, err := w.loadAside(ctx, u, f.Watermark, f.wrongContent && f.Kind != Missing)
	if err != nil || !ok {
		return err
	}
	defer w.Store.Release([]model.State{state})
	stored, from := state.Document, state.Watermark+1
	// Nothing is folded on a foreign document, nor on a wrong part: the write of a part is guarded
	// by the time of its last change, so no writer continues from the wrong one. If a side
	// watermark is wrong, or the history begins anew with a snapshot, all events are folded. If there
	// is a document, another writer has created it since, and it already has the events up to its
	// watermark.
	if state.Foreign != nil || f.anew || f.wrongContent && (u.Parts || stored == nil) {
		stored, from = nil, u.FirstEvent()
	}
	fold, failed, err := w.foldOrPark(ctx, t, a, stored, from)
	switch {
	case err != nil:
		return err
	case failed != nil && fold.Last() < 0:
		return failed
	}
	write, ok := fold.Write(u, state)
	switch {
	case !ok && state.Watermark != f.Watermark && state.Foreign == nil:
		return nil // Another writer was faster.
	case !ok:
		return nothing(f)
	case state.Foreign != nil && fold.State() == nil && state.Watermark >= write.To:
		_, err := w.Repairer.RemoveForeign(ctx, u, *state.Foreign)
		return err
	}
	write.Building = t.Building
	// If the write did not take effect, the next check finds out.
	_, err = w.write(ctx, write)
	return err
}

// loadAside sets the document with the watermark aside, if aside is set, and loads what the unit
// has then. It returns false if another writer was faster. The events must be read after it: see
// readmodel.Repairer.
func (w *Workers) loadAside(ctx context.Context, u model.Unit, watermark int64, aside bool) (model.State, bool, error) {
	if aside && !u.Parts {
		if ok, err := w.Repairer.SetAside(ctx, u, watermark); err != nil || !ok {
			return model.State{}, false, err
		}
	}
	state, err := w.load(ctx, u)
	switch {
	case err != nil:
		return state, false, err
	case state.Err != nil:
		err = fmt.Errorf("the document cannot be loaded, so it cannot be guarded: %w; delete it by hand, and repeat the command", state.Err)
	case state.Unavailable != nil:
		err = errNewer(state.Unavailable)
	default:
		return state, true, nil
	}
	w.Store.Release([]model.State{state})
	return state, false, err
}

// foldOrPark folds the aggregate's events from an id on into a stored document. If one is missing or
// cannot be folded, it parks the aggregate at that event: failed says why.
func (w *Workers) foldOrPark(ctx context.Context, t *engine.Target, a *aggregate, stored []byte, from int64) (fold *projection.Accumulator, failed *projection.Error, err error) {
	fold = t.Projection.Begin(stored)
	u, next, last := t.Unit(a.id), from, from
	err = w.readFrom(ctx, a, from, bson.Timestamp{}, func(events []*event.Event) {
		if len(events) > 0 {
			last = events[len(events)-1].EventID
		}
		if failed != nil {
			return
		}
		for i, ev := range events {
			if next == u.FirstEvent() {
				next = t.Projection.BeginsAt(ev, next)
			}
			if ev.EventID != next {
				failed = &projection.Error{
					Projection: u.Projection, AggregateID: u.AggregateID, EventID: next, Reason: projection.ReasonMissing, Err: fmt.Errorf("the event store lacks event %d", next),
				}
				events = events[:i]
				break
			}
			next = ev.EventID + 1
		}
		if poison := fold.Add(events); poison != nil {
			failed = poison
		}
	})
	if err == nil && failed != nil {
		err = w.park(ctx, u, a.raw, last, failed)
	}
	return fold, failed, err
}

// park parks an aggregate at the event that is missing or cannot be folded.
func (w *Workers) park(ctx context.Context, u model.Unit, raw bson.RawValue, head int64, cause *projection.Error) error {
	at, err := w.parked(ctx, u)
	if err != nil || at.EventID == cause.EventID {
		return err
	}
	return w.Parking.Park(ctx, []model.Marker{cause.Marker(u, raw, max(head, cause.EventID))})
}

// write writes with the same guards as every writer, and reports whether the write took effect.
func (w *Workers) write(ctx context.Context, write model.Write) (bool, error) {
	written, err := w.Store.Write(ctx, []model.Write{write})
	if err != nil {
		return false, fmt.Errorf("write %s: %w", write.AggregateID, err)
	}
	switch status, err := written[0].Status, written[0].Err; {
	case status == model.Applied:
		return true, nil
	case status == model.Rejected, status == model.Conflict:
		return false, fmt.Errorf("write %s: %s", write.AggregateID, WithoutValues(err))
	case errors.Is(err, model.ErrSuperseded):
		return false, err
	}
	return false, nil
}
