package project

import "github.com/penstock-cdc/penstock/projector/internal/model"

// assumption is what the state of a unit rests on.
type assumption uint8

const (
	// assumesNothing is a state that was loaded.
	assumesNothing assumption = iota
	// assumesKept is a state that the session has kept since its last write.
	assumesKept
	// assumesNew is that nothing is stored for the unit.
	assumesNew
)

// assumed folds the units whose state need not be loaded. It returns those that have
// something to write, and the rest, which has to be loaded.
func (t *track) assumed(units []*unit) (writing, rest []*unit) {
	if t.session == nil || t.gaps != Hold {
		return nil, units
	}
	t.folding.Lock()
	defer t.folding.Unlock()
	for _, u := range units {
		if t.assume(u) {
			writing = append(writing, u)
		} else {
			rest = append(rest, u)
		}
	}
	return writing, rest
}

// assume folds a unit's events into the state that it most likely has. If it reports
// false, the unit is as before. It assumes once in a call.
func (t *track) assume(u *unit) bool {
	if u.looked {
		return false
	}
	u.looked = true
	state, kept := t.session.take(u)
	next := u.aggregate.events[0].EventID
	switch {
	case u.blind(t.strict):
		return false
	case kept && next > state.Watermark && (!t.strict || next == state.Watermark+1):
		u.assumes = assumesKept
	case !kept && t.strict && next == 1 && !u.target.Building && t.newcomers.expected():
		u.assumes = assumesNew
	default:
		return false
	}
	u.stored(&state)
	u.plan(t.strict)
	u.fold = u.target.Projection.fold(u.document, u.run)
	// A failure is judged on what is stored. A Delete has no guard but the watermark, and a
	// moved side watermark none at all.
	guarded := u.fold.Kind == model.Update && u.assumes == assumesKept || u.fold.Kind == model.Create && u.assumes == assumesNew
	if u.fold.Err != nil || !guarded {
		u.unassume()
		return false
	}
	return true
}

// stored sets what is stored for the unit.
func (u *unit) stored(s *model.State) {
	u.document, u.watermark, u.updatedAt, u.foreign = s.Document, s.Watermark, s.UpdatedAt, s.Foreign
}

// unassume forgets the state that was assumed, and what was folded into it.
func (u *unit) unassume() {
	u.assumes = assumesNothing
	u.stored(&model.State{})
	clear(u.run)
	u.run, u.fold = u.run[:0], Fold{}
}

// refuted reports whether the result of a write says that the unit's state is not the one
// that was assumed, or that something else is wrong with the write. Then the unit is
// loaded, and only what becomes of that counts.
func (t *track) refuted(u *unit, result model.Written) bool {
	assumed := u.assumes
	u.assumes = assumesNothing
	if assumed == assumesNothing || result.Status == model.Applied || result.Status == model.Unknown {
		return false
	}
	if assumed == assumesNew && result.Status == model.Stale {
		t.newcomers.wrong()
	}
	u.unassume()
	return true
}

// remember keeps what was written for the session's next events. It is called before the
// unit forgets its fold.
func (t *track) remember(u *unit, result model.Written) {
	if t.session == nil {
		return
	}
	to := u.run[u.fold.Folded-1].EventID
	state := model.State{Watermark: to, UpdatedAt: result.UpdatedAt}
	switch {
	case result.UpdatedAt == 0:
	case u.fold.Kind == model.Create:
		state.Document = u.fold.Document
	case u.fold.Kind == model.Update && u.fold.Update == nil:
		state.Document = u.document
	case u.fold.Kind == model.Update:
		state.Document = u.fold.document.state()
	}
	if state.Document == nil {
		// An older state of the unit must not stay: it would be loaded after all.
		t.session.take(u)
		return
	}
	t.session.keep(u, state)
}
