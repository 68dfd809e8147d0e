package engine

import (
	"context"

	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// assumption says how the state of a unit is known.
type assumption uint8

const (
	// assumesNothing: the state was loaded.
	assumesNothing assumption = iota
	// assumesKept: the session has kept the state since its last write.
	assumesKept
	// assumesNew: nothing is stored for the unit. If the projection never deletes, only its
	// watermark tells an erased aggregate from a new one, and one whose snapshot has no rule. So
	// the watermark is loaded after an erasure, and if there is such a snapshot.
	assumesNew
)

// assumed folds the units whose state need not be loaded. It returns the units that have a
// write, and the rest, which must be loaded.
func (t *track) assumed(ctx context.Context, units []*unit) (writing, rest []*unit) {
	if t.session == nil || !t.since.IsZero() {
		return nil, units
	}
	t.folding.Lock()
	defer t.folding.Unlock()
	ctx, cancel := context.WithTimeout(ctx, projection.FoldTime)
	defer cancel()
	for _, u := range units {
		if ctx.Err() == nil && t.assume(ctx, u) {
			writing = append(writing, u)
		} else {
			rest = append(rest, u)
		}
	}
	return writing, rest
}

// assume folds a unit's events into the state that it most likely has. If it returns false,
// the unit is unchanged. It assumes at most once per call.
func (t *track) assume(ctx context.Context, u *unit) bool {
	if u.looked || t.full() {
		return false
	}
	u.looked = true
	state, kept := t.session.take(u)
	if !kept {
		state.Watermark = u.NoEvent()
	}
	next := u.aggregate.events[0].EventID
	switch {
	case kept && next == state.Watermark+1:
		u.assumes = assumesKept
	case !kept && next == u.FirstEvent() && (u.Deletes || u.Parts || !u.target.Erased && !u.target.Projection.Forgets()) && !u.target.Building && t.newcomers.expected():
		u.assumes = assumesNew
	default:
		return false
	}
	u.stored(&state)
	u.plan()
	admitted := t.foldRun(ctx, u)
	// Only these writes are guarded by more than the watermark. A failure must be judged on
	// the stored state. A Delete is guarded only by the watermark, and a moved side
	// watermark not at all. All writes of a part are guarded by the time of its last change.
	guarded := u.Parts || u.fold.Kind == model.Update && u.assumes == assumesKept || u.fold.Kind == model.Create && u.assumes == assumesNew
	if u.fold.Err != nil || !guarded || !admitted {
		u.assumes = assumesNothing
		u.stored(&model.State{Watermark: u.NoEvent()})
		clear(u.run)
		u.run, u.fold = u.run[:0], projection.Fold{}
		return false
	}
	return true
}

// stored sets the stored state of the unit.
func (u *unit) stored(s *model.State) {
	u.document, u.watermark, u.updatedAt, u.foreign = s.Document, s.Watermark, s.UpdatedAt, s.Foreign
}

// refuted reports whether the result of a write shows that the assumed state was wrong, or
// that the write has another problem. Then the unit is loaded, and only the result of that
// counts.
func (t *track) refuted(u *unit, result model.Written) bool {
	assumed := u.assumes
	u.assumes = assumesNothing
	if assumed == assumesNothing || result.Status == model.Applied || result.Status == model.Unknown {
		return false
	}
	if assumed == assumesNew && result.Status == model.Stale {
		t.newcomers.wrong()
	}
	return true
}

// remember keeps the written document for the session's next events. It is called before
// the unit drops its fold.
func (t *track) remember(u *unit, result model.Written) {
	if t.session == nil {
		return
	}
	to := u.run[u.fold.Folded-1].EventID
	state := model.State{Watermark: to, UpdatedAt: result.UpdatedAt}
	switch {
	case result.UpdatedAt == 0:
	case u.Parts:
		state.Document = u.fold.Document
	case u.fold.Kind == model.Create:
		state.Document = u.fold.Document
	case u.fold.Kind == model.Update && u.fold.Update == nil:
		state.Document = u.document
	case u.fold.Kind == model.Update:
		state.Document = u.fold.State()
	}
	if state.Document != nil {
		t.session.keep(u, state)
	}
}
