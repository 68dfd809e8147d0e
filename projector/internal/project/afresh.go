package project

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// maxAfresh bounds how often one call reads a unit again because its watermark has moved.
const maxAfresh = 3

// errMoved says that other writers kept moving the watermark while the unit was folded from
// its first event.
var errMoved = errors.New("other processes keep changing the read model")

// afresh folds the unit's events from the first one to the head, or to its watermark if
// that is higher. It replaces the stored document by the result in one write. It reads the
// history page by page before the write, without the projection's pause lock.
func (b *batch) afresh(ctx context.Context, u *unit, s Suspended) Resumed {
	a, until := u.target.Projection.Begin(nil, 0), s.Head
	for range maxAfresh {
		state := b.look(ctx, u)
		if u.trouble != nil {
			return b.unavailable(u, s)
		}
		until = max(until, state.Watermark)
		if cause := b.foldUpTo(ctx, a, s, until); cause != nil {
			if a.failed == nil || a.Last() < state.Watermark {
				return b.stopped(ctx, u, s, cause)
			}
			// The events before the failing one are written.
			until = a.Last()
		}
		replaced := b.replace(ctx, a, u, until)
		switch {
		case u.conflict != nil && s.Final:
			u.trouble = nil
			return b.stopped(ctx, u, s, u.conflict)
		case u.trouble != nil:
			return b.unavailable(u, s)
		case u.cause != nil:
			return b.stopped(ctx, u, s, u.cause)
		case replaced && a.failed != nil:
			return b.stopped(ctx, u, s, a.failed)
		case replaced:
			return Resumed{Watermark: u.watermark}
		}
	}
	u.trouble = errMoved
	return b.unavailable(u, s)
}

// foldUpTo adds events up to an id. Its error says why it cannot.
func (b *batch) foldUpTo(ctx context.Context, a *Accumulator, s Suspended, until int64) *Error {
	for a.Last() < until && a.failed == nil {
		events, cause := b.readHistory(ctx, s, a.Last()+1, until)
		switch {
		case cause != nil:
			return cause
		case len(events) == 0:
			// In an increasing sequence, the store has no more of them.
			return nil
		}
		if failed := a.Add(events); failed != nil {
			return failed
		}
	}
	return a.failed
}

// readHistory reads a page of an aggregate's events, beginning with an id. In a strict
// sequence the page ends before the first hole.
func (b *batch) readHistory(ctx context.Context, s Suspended, from, until int64) ([]*event.Event, *Error) {
	cause := &Error{Projection: s.Projection, AggregateID: s.AggregateID, EventID: from, Reason: ReasonUnavailable}
	if b.repairer == nil {
		cause.Err = errors.New("there is no event store to read from")
		return nil, cause
	}
	attempt, cancel := b.oneAttempt(ctx)
	defer cancel()
	first := &event.Event{Keys: event.Keys{AggregateID: s.AggregateID}, RawAggregateID: s.RawAggregateID}
	events, err := b.repairer.Missing(attempt, first, from, until, repairPage)
	if err != nil {
		cause.Err = err
		return nil, cause
	}
	if !b.strict {
		return events, nil
	}
	n := 0
	for n < len(events) && events[n].EventID == from+int64(n) {
		n++
	}
	switch {
	case n > 0:
		return events[:n], nil
	case from == 1 && len(events) > 0 && s.Final:
		cause.Reason, cause.Err = ReasonHistory, fmt.Errorf("the first event that the event store has of the aggregate is %d", events[0].EventID)
	default:
		cause.Reason, cause.Err = ReasonMissing, errNotStored
	}
	return nil, cause
}

// replace replaces the stored document by the result of the fold. It returns false if the
// stored watermark is higher than the last folded event, or moved during the write.
func (b *batch) replace(ctx context.Context, a *Accumulator, u *unit, until int64) bool {
	release, err := b.enter(ctx, u.target)
	if err != nil {
		u.trouble = err
		return false
	}
	defer release()
	states := b.load(ctx, []*unit{u})
	if u.trouble != nil {
		return false
	}
	defer b.store.Release(states)
	state := states[0]
	switch {
	case state.Unavailable != nil:
		u.trouble = state.Unavailable
		return false
	case state.Err != nil:
		u.cause = &Error{Projection: u.Projection, AggregateID: u.AggregateID, EventID: max(1, a.Last()), Reason: ReasonDocument, Err: state.Err}
		return false
	case state.Watermark > until:
		return false
	}
	a.document.loaded = state.Document
	w, ok := a.Write(u.Unit, state)
	a.document.loaded = nil
	if !ok {
		u.watermark = state.Watermark
		return true
	}
	w.To = max(w.To, state.Watermark)
	return b.replaced(ctx, u, w)
}

// replaced makes one write, and reports whether it took effect.
func (b *batch) replaced(ctx context.Context, u *unit, w model.Write) bool {
	attempt, cancel := b.oneAttempt(ctx)
	defer cancel()
	written, err := b.store.Write(attempt, []model.Write{w})
	if err != nil {
		u.trouble = fmt.Errorf("write read models: %w", err)
		return false
	}
	refused := &Error{Projection: u.Projection, AggregateID: u.AggregateID, EventID: w.To, Reason: ReasonRejected, Err: written[0].Err}
	switch written[0].Status {
	case model.Applied:
		u.watermark = w.To
		return true
	case model.Stale:
	case model.Rejected:
		u.cause = refused
	case model.Conflict:
		u.trouble, u.conflict = refused, refused
	default:
		u.trouble = fmt.Errorf("write %s of %s: %w", u.AggregateID, u.Projection, written[0].Err)
	}
	return false
}

// look returns the state of a unit without its document. If the state cannot be loaded,
// the unit is in trouble.
func (b *batch) look(ctx context.Context, u *unit) model.State {
	states := b.load(ctx, []*unit{u})
	if u.trouble != nil {
		return model.State{}
	}
	defer b.store.Release(states)
	state := states[0]
	u.trouble, u.watermark = state.Unavailable, state.Watermark
	state.Document = nil
	return state
}

// removeForeign removes the document of an older generation from a unit without a write.
func (b *batch) removeForeign(ctx context.Context, u *unit, state model.State) {
	release, err := b.enter(ctx, u.target)
	if err != nil {
		u.trouble = err
		return
	}
	defer release()
	if !b.replaced(ctx, u, model.Write{
		Unit: u.Unit, Kind: model.MoveWatermark, From: state.Watermark, To: state.Watermark, Foreign: state.Foreign,
	}) && u.trouble == nil {
		u.trouble = errMoved
	}
}
