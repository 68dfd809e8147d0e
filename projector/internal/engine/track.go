package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// track is one target's part of a batch. It works in rounds: load, fold, write, and again
// for the units that have more to do.
type track struct {
	*batch
	target *Target
	// active are the units that need another round.
	active []*unit
	// gapped lack the event after their watermark.
	gapped []*unit
	// failing have a cause to be parked.
	failing []*unit
	// conflicting were refused because of another document.
	conflicting []*unit
	// progress says that a write was applied since the conflicting units were last tried.
	progress bool
	// swollen is by how many bytes the documents of the round have grown beyond their
	// events. waits says that the next round needs the turn to write such documents, and
	// turn that this round has it.
	swollen     int
	waits, turn bool
}

// run continues until no unit is active.
func (t *track) run(ctx context.Context) {
	for len(t.active) > 0 && ctx.Err() == nil {
		units := t.active
		t.active = nil
		t.round(ctx, units)
		if len(t.active) == 0 && t.progress {
			// A unique value that one document has released may be free now.
			t.active, t.conflicting, t.progress = t.conflicting, nil, false
		}
	}
	for _, u := range t.conflicting {
		u.trouble = u.conflict
	}
}

// round takes each unit one step further, as far as memory has room for its document. It
// does not load new units and units whose documents the session has kept. The round holds
// the projection's pause lock from before its load until its writes are answered.
func (t *track) round(ctx context.Context, units []*unit) {
	end, err := t.takeTurn(ctx)
	if err != nil {
		t.unparkable(units, err)
		return
	}
	defer end()
	release, err := t.enter(ctx, t.target)
	if err != nil {
		t.unparkable(units, err)
		return
	}
	defer release()
	writing, rest := t.assumed(ctx, units)
	if len(rest) > 0 {
		if loaded := t.load(ctx, rest); loaded != nil {
			defer t.store.Release(loaded)
			writing = append(writing, t.foldAll(ctx, rest, loaded)...)
		}
	}
	for i, result := range t.write(ctx, writing) {
		t.written(writing[i], result)
	}
	for _, u := range writing {
		// The documents must not be kept in memory once they are released.
		u.document, u.fold = nil, projection.Fold{}
	}
}

// foldAll folds the events of units that were loaded, and returns those that have
// something to write.
func (t *track) foldAll(ctx context.Context, units []*unit, loaded []model.State) (writing []*unit) {
	t.folding.Lock()
	defer t.folding.Unlock()
	round, cancel := context.WithTimeout(ctx, projection.FoldTime)
	defer cancel()
	for i, u := range units {
		switch state := &loaded[i]; {
		case u.finished() || ctx.Err() != nil:
			continue
		case state.Deferred, round.Err() != nil:
			t.active = append(t.active, u)
			continue
		case state.Unavailable != nil:
			u.trouble, u.unparkable = state.Unavailable, errors.Is(state.Unavailable, model.ErrSuperseded)
			continue
		case state.Err != nil:
			u.cause = u.failure(u.firstOpen(), projection.ReasonDocument, state.Err)
			t.failing = append(t.failing, u)
			continue
		case t.full():
			t.active = append(t.active, u)
			continue
		default:
			u.stored(state)
		}
		u.settleUpToWatermark()
		u.plan()
		if !u.finished() && len(u.run) > 0 {
			switch admitted := t.foldRun(round, u); {
			case !admitted:
				t.active = append(t.active, u)
			case u.fold.Folded > 0:
				writing = append(writing, u)
				continue
			default:
				t.fails(u, u.fold.Err)
			}
		} else if !u.finished() {
			t.gapped = append(t.gapped, u)
		}
		u.document, u.fold = nil, projection.Fold{}
	}
	return writing
}

// fails sorts a unit whose next event failed.
func (t *track) fails(u *unit, err *projection.Error) {
	if errors.Is(err.Err, projection.ErrBusy) {
		u.trouble, u.answered = err, true
		return
	}
	u.cause = err
	t.failing = append(t.failing, u)
}

// written sorts a unit by the result of its write.
func (t *track) written(u *unit, result model.Written) {
	if result.Status == model.Applied || result.Status == model.Rejected || result.Status == model.Conflict {
		t.answered.Store(time.Now().UnixNano())
	}
	if t.refuted(u, result) {
		t.active = append(t.active, u)
		return
	}
	switch result.Status {
	case model.Applied:
		t.remember(u, result)
		failed, stopped := u.fold.Err, u.fold.Err == nil && u.fold.Folded < len(u.run)
		u.settleRun()
		u.stale, t.progress = 0, true
		switch {
		case failed != nil:
			t.fails(u, failed)
		case u.finished():
		case stopped || u.single || len(u.missing) > 0:
			t.active = append(t.active, u)
		default:
			t.gapped = append(t.gapped, u)
		}
	case model.Stale:
		if u.stale++; u.stale > maxStale {
			u.trouble = fmt.Errorf("write %s of %s: %w", u.AggregateID, u.Projection, ErrContended)
			return
		}
		t.active = append(t.active, u)
	case model.Rejected, model.Conflict:
		if len(u.run) > 1 {
			u.single = true
			t.active = append(t.active, u)
			return
		}
		failure := u.failure(u.run[0], projection.ReasonRejected, result.Err)
		if result.Status == model.Conflict {
			failure.Reason = projection.ReasonConflict
			u.conflict = failure
			t.conflicting = append(t.conflicting, u)
			return
		}
		u.cause = failure
		t.failing = append(t.failing, u)
	default:
		u.attempted = max(u.attempted, u.run[u.fold.Folded-1].EventID)
		if u.unknown++; u.unknown > maxUnknown {
			u.trouble = fmt.Errorf("write %s of %s: %w", u.AggregateID, u.Projection, result.Err)
			u.unparkable = errors.Is(result.Err, model.ErrSuperseded)
			return
		}
		t.active = append(t.active, u)
	}
}
