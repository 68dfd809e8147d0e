package engine

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// Suspended is a unit that must continue from the event store, because it is parked or
// behind.
type Suspended struct {
	Projection, AggregateID string
	// Generation is the generation of the projection; 0 means the first one.
	Generation int64
	// RawAggregateID is the aggregate's id with its type in the event store.
	RawAggregateID bson.RawValue
	// Head is the last event that was acknowledged for the unit, or that the event store
	// has of the aggregate. The unit is caught up when it has this event.
	Head int64
	// Final says that a history that does not begin at the first event has the reason [ReasonHistory]
	// instead of [ReasonMissing].
	Final bool
	// Parks makes Resume park a unit that resumes by itself: as [ReasonConflict] if another
	// document has a unique value, as [ReasonUnavailable] if a store that can be reached fails
	// for the unit.
	Parks bool
}

// Resumed is the progress of a unit.
type Resumed struct {
	// Watermark is the last event in its read model; [model.Unit.NoEvent] if that could not be loaded.
	Watermark int64
	// Cause is the reason why the unit cannot continue; nil if it can, or if it is caught
	// up.
	Cause *projection.Error
	// Parked is set if the unit is parked for the cause. That is so if the cause does not
	// resume by itself, or for [Suspended.Parks].
	Parked bool
	// Interrupted is set if the cause is a promotion, or that the parking list does not answer.
	// It says nothing about the unit; the same call can succeed later.
	Interrupted bool
}

// notStored says that the event store lacks an event.
func notStored(eventID int64) error {
	if eventID == 0 {
		return errors.New("the event store does not have the event: if the events of all aggregates are numbered from 1, set PENSTOCK_FIRST_EVENT_ID=1 for the publisher and the projector")
	}
	return errors.New("the event store does not have the event")
}

// errMoved says that another writer has moved the watermark.
var errMoved = errors.New("another process has changed the read model")

// Resume applies one page of events to a unit: it reads the events after the unit's
// watermark from the event store, folds them and writes the result, with the same guard as
// any write. So it is harmless if another process resumes the same unit, or applies its
// session's events. The unit is caught up if the watermark is at least the head. The caller
// calls Resume until it is caught up or a cause is set. If a document of an older
// generation has taken the place of a caught-up unit, Resume removes it.
//
// The unit's generation must be one of the targets, otherwise the error is
// [model.ErrSuperseded].
//
// The error is ctx's cause if ctx ended; then the result is not valid.
func (e *Engine) Resume(ctx context.Context, s Suspended) (Resumed, error) {
	targets := e.snapshot()
	t := targets.find(s.Projection, s.Generation)
	if t == nil {
		return Resumed{}, fmt.Errorf("resume %s in %s: %w", s.AggregateID, s.Projection, model.ErrSuperseded)
	}
	b := &batch{Engine: e, targets: targets}
	u := newUnit(t, s.AggregateID)
	u.head = s.Head
	resumed := b.resume(ctx, u, s)
	if ctx.Err() != nil {
		return Resumed{}, context.Cause(ctx)
	}
	return resumed, nil
}

func (b *batch) resume(ctx context.Context, u *unit, s Suspended) Resumed {
	b.units = []*unit{u}
	// A state that can never be loaded fails again below, and parks the unit.
	state := b.look(ctx, u)
	if u.trouble == nil && u.watermark >= s.Head {
		if state.Foreign != nil && u.watermark > u.NoEvent() {
			b.removeForeign(ctx, u, state)
		}
		if u.trouble == nil {
			return Resumed{Watermark: u.watermark}
		}
	}
	if u.trouble != nil {
		return b.unavailable(ctx, u, s)
	}
	events, cause := b.readHistory(ctx, u, s)
	if cause == nil && len(events) == 0 {
		cause = &projection.Error{Projection: s.Projection, AggregateID: s.AggregateID, EventID: u.watermark + 1, Reason: projection.ReasonMissing, Err: notStored(u.watermark + 1)}
	}
	if cause != nil {
		return b.stopped(ctx, u, s, cause)
	}
	u.aggregate = &aggregate{id: s.AggregateID, events: viewsOf(events), units: []*unit{u}}
	b.aggregates = []*aggregate{u.aggregate}
	b.project(ctx, b.units)
	conflicts := u.conflicting() && ctx.Err() == nil
	if conflicts {
		u.cause, u.trouble = u.conflict, nil
		if s.Parks {
			b.park(ctx, b.units)
		}
	}
	b.count(nil)
	switch {
	case u.trouble != nil:
		return b.unavailable(ctx, u, s)
	case u.cause != nil:
		return Resumed{Watermark: u.watermark, Cause: u.cause, Parked: !conflicts || s.Parks}
	}
	return Resumed{Watermark: u.watermark}
}

// conflicting reports whether a unique value of another document stops the unit.
func (u *unit) conflicting() bool { return u.conflict != nil && errors.Is(u.trouble, u.conflict) }

// unavailable is the result of a unit that is in trouble. [Suspended.Parks] parks the unit,
// unless nothing can be written.
func (b *batch) unavailable(ctx context.Context, u *unit, s Suspended) Resumed {
	cause := &projection.Error{Projection: s.Projection, AggregateID: s.AggregateID, EventID: u.watermark + 1, Reason: projection.ReasonUnavailable, Err: u.trouble}
	parked := s.Parks && !u.unparkable && ctx.Err() == nil && (b.reachable == nil || b.reachable(ctx) == nil) && b.parkAt(ctx, u, s, cause)
	return Resumed{Watermark: u.watermark, Cause: cause, Parked: parked, Interrupted: u.unparkable}
}

// stopped is the result of a unit that cannot continue because of cause. It parks the unit
// if the cause is permanent.
func (b *batch) stopped(ctx context.Context, u *unit, s Suspended, cause *projection.Error) Resumed {
	if cause.Reason.Resumes() || ctx.Err() != nil {
		return Resumed{Watermark: u.watermark, Cause: cause}
	}
	if !b.parkAt(ctx, u, s, cause) {
		return b.unavailable(ctx, u, s)
	}
	return Resumed{Watermark: u.watermark, Cause: cause, Parked: true}
}

// parkAt parks a unit for a cause. If that fails, the unit is in trouble.
func (b *batch) parkAt(ctx context.Context, u *unit, s Suspended, cause *projection.Error) bool {
	at := &event.Event{Keys: event.Keys{AggregateID: s.AggregateID, EventID: cause.EventID}, RawAggregateID: s.RawAggregateID}
	u.aggregate = &aggregate{id: s.AggregateID, events: []*projection.Event{projection.NewEvent(at)}, units: []*unit{u}}
	u.settled, u.cause, u.trouble = nil, cause, nil
	b.park(ctx, []*unit{u})
	return u.trouble == nil
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

// readHistory reads a page of an aggregate's events after the unit's watermark. The page ends
// before the first hole. It is a snapshot alone if the history begins anew with it.
func (b *batch) readHistory(ctx context.Context, u *unit, s Suspended) ([]*event.Event, *projection.Error) {
	from := u.watermark + 1
	cause := &projection.Error{Projection: s.Projection, AggregateID: s.AggregateID, EventID: from, Reason: projection.ReasonUnavailable}
	attempt, cancel := b.oneAttempt(ctx)
	defer cancel()
	first := &event.Event{Keys: event.Keys{AggregateID: s.AggregateID}, RawAggregateID: s.RawAggregateID}
	events, err := b.repairer.Missing(attempt, first, from, s.Head, repairPage)
	if err != nil {
		cause.Err = err
		return nil, cause
	}
	leading := inOrder(events, from)
	var snapshot *event.Event
	if len(leading) == 0 {
		snapshot, err = b.snapshotOf(ctx, u, first)
	}
	switch {
	case err != nil:
		cause.Err = err
	case len(leading) > 0:
		return leading, nil
	case snapshot != nil:
		return []*event.Event{snapshot}, nil
	case from == u.FirstEvent() && len(events) > 0 && s.Final:
		cause.Reason, cause.Err = projection.ReasonHistory, fmt.Errorf("the first event that the event store has of the aggregate is %d", events[0].EventID)
	default:
		cause.Reason, cause.Err = projection.ReasonMissing, notStored(cause.EventID)
	}
	return nil, cause
}

// removeForeign removes the document of an older generation from a unit without a write.
func (b *batch) removeForeign(ctx context.Context, u *unit, state model.State) {
	release, err := b.enter(ctx, u.target)
	if err != nil {
		b.unparkable([]*unit{u}, err)
		return
	}
	defer release()
	attempt, cancel := b.oneAttempt(ctx)
	defer cancel()
	written, err := b.store.Write(attempt, []model.Write{{
		Unit: u.Unit, Kind: model.MoveWatermark, From: state.Watermark, To: state.Watermark, Foreign: state.Foreign,
	}})
	switch {
	case err != nil:
		u.trouble = fmt.Errorf("write read models: %w", err)
	case written[0].Status == model.Stale:
		u.trouble = errMoved
	case written[0].Status != model.Applied:
		u.trouble = fmt.Errorf("remove the document of an older generation of %s in %s: %w", u.AggregateID, u.Projection, written[0].Err)
	}
}
