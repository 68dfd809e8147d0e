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

// maxRepairs bounds the attempts of a repair while other writers are faster.
const maxRepairs = 10

// errContended is returned if other writers were faster at every attempt.
var errContended = errors.New("other processes kept changing the read model; verify again")

// errExtra says why a finding of the kind [Extra] is not repaired.
func errExtra(f *Finding) error {
	return fmt.Errorf("%s, and a repair deletes no read model: check the event store, and delete the read model by hand if it is wrong", f.Detail)
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
	return fmt.Errorf("%w: %s, and the events in the event store give no other read model: check them, and delete the read model by hand if it is wrong", errNothing, cmp.Or(f.Detail, "the read model is "+string(f.Kind)))
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
		if finding.Kind == Extra {
			return errExtra(finding)
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
	if f.wrongContent && f.Kind != Missing && !u.Parts {
		if ok, err := w.Repairer.SetAside(ctx, u, f.Watermark); err != nil || !ok {
			return err
		}
	}
	// The repair must use only reads after SetAside: see readmodel.Repairer.
	state, err := w.load(ctx, u)
	if err != nil {
		return err
	}
	defer w.Store.Release([]model.State{state})
	switch {
	case state.Err != nil:
		return fmt.Errorf("the document cannot be loaded, so it cannot be guarded: %w; delete it by hand, and verify again", state.Err)
	case state.Unavailable != nil:
		return errNewer(state.Unavailable)
	}
	stored, from := state.Document, state.Watermark+1
	// Nothing is folded on a foreign document, nor on a wrong part: the write of a part is guarded
	// by the time of its last change, so no writer continues from the wrong one. If a side
	// watermark is wrong, all events are folded. If there is a document, another writer has created
	// it since, and it already has the events up to its watermark.
	if state.Foreign != nil || f.wrongContent && (u.Parts || stored == nil) {
		stored, from = nil, 1
	}
	fold, err := w.foldFrom(ctx, t, a, f, stored, from)
	if err != nil {
		return err
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
	return w.write(ctx, write)
}

// foldFrom folds the aggregate's events from an id on into a stored document. If the
// first of them cannot be folded, it returns an error. If a later one cannot, it
// returns the fold of the events before it. In both cases the aggregate is parked.
func (w *Workers) foldFrom(ctx context.Context, t *engine.Target, a *aggregate, f *Finding, stored []byte, from int64) (*projection.Accumulator, error) {
	fold := t.Projection.Begin(stored, 0)
	next := from
	var failed error
	err := w.readFrom(ctx, a, from, bson.Timestamp{}, func(events []*event.Event) {
		if failed != nil {
			return
		}
		for i, ev := range events {
			if ev.EventID != next {
				failed = fmt.Errorf("the event store lacks event %d", next)
				events = events[:i]
				break
			}
			next = ev.EventID + 1
		}
		if err := fold.Add(events); err != nil && failed == nil {
			failed = err
		}
	})
	if err != nil {
		return nil, err
	}
	if err := w.park(ctx, t.Unit(a.id), a.raw, f, failed); err != nil {
		return nil, err
	}
	if failed != nil && fold.Last() == 0 {
		return nil, failed
	}
	return fold, nil
}

// park parks an aggregate at the event that cannot be folded.
func (w *Workers) park(ctx context.Context, u model.Unit, raw bson.RawValue, f *Finding, failed error) error {
	cause, poison := errors.AsType[*projection.Error](failed)
	if !poison {
		return nil
	}
	at, err := w.parked(ctx, u)
	if err != nil || at.EventID == cause.EventID {
		return err
	}
	return w.Parking.Park(ctx, []model.Marker{cause.Marker(u, raw, max(f.Head, cause.EventID))})
}

// write writes with the same guards as every writer.
func (w *Workers) write(ctx context.Context, write model.Write) error {
	written, err := w.Store.Write(ctx, []model.Write{write})
	if err != nil {
		return fmt.Errorf("write %s: %w", write.AggregateID, err)
	}
	switch written[0].Status {
	case model.Rejected, model.Conflict:
		return fmt.Errorf("write %s: %w", write.AggregateID, written[0].Err)
	}
	// The write was applied, another writer was faster, or the outcome is unknown. The
	// next check finds out.
	return nil
}
