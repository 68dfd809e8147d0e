package project

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
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
	// Final says that the unit is parked permanently for reasons that otherwise count as
	// transient: a conflict on a unique value ([ReasonUnavailable]), or a history that does
	// not begin at event 1 ([ReasonMissing]).
	Final bool
	// Fresh says that the unit is folded from its first event instead of from the stored
	// document, which may be wrong, up to the head or to its watermark if that is higher.
	// The result replaces the stored document in one write under the usual guard. A writer
	// that has loaded the wrong document before can restore it only if the watermark stays
	// the same.
	Fresh bool
	// Failed is the event that parked the unit permanently and is retried on request; 0 if
	// there is none. If it fails again the judge is not asked, because a retry of many
	// units must not look like a wrong projection.
	Failed int64
}

// Resumed is the progress of a unit.
type Resumed struct {
	// Watermark is the last event in its read model; 0 if that could not be loaded.
	Watermark int64
	// Cause is the reason why the unit cannot continue; nil if it can, or if it is caught
	// up. If its reason does not resume by itself, the unit is parked for it.
	Cause *Error
}

// errNotStored says that the event store lacks an event.
var errNotStored = errors.New("the event store does not have the event")

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
	targets, end := e.begin()
	defer end()
	t := targets.find(s.Projection, s.Generation)
	if t == nil {
		return Resumed{}, fmt.Errorf("resume %s in %s: %w", s.AggregateID, s.Projection, model.ErrSuperseded)
	}
	b := &batch{Engine: e, gaps: Hold, targets: targets}
	u := &unit{Unit: t.unit(s.AggregateID), target: t, parkedFor: s.Failed}
	resumed := b.resume(ctx, u, s)
	if ctx.Err() != nil {
		return Resumed{}, context.Cause(ctx)
	}
	return resumed, nil
}

func (b *batch) resume(ctx context.Context, u *unit, s Suspended) Resumed {
	b.units = []*unit{u}
	if s.Fresh {
		return b.afresh(ctx, u, s)
	}
	// A state that can never be loaded fails again below, and parks the unit.
	state := b.look(ctx, u)
	if u.trouble == nil && u.watermark >= s.Head {
		if state.Foreign != nil && u.watermark > 0 {
			b.removeForeign(ctx, u, state)
		}
		if u.trouble == nil {
			return Resumed{Watermark: u.watermark}
		}
	}
	if u.trouble != nil {
		return b.unavailable(u, s)
	}
	events, cause := b.readHistory(ctx, s, u.watermark+1, s.Head)
	if cause == nil && len(events) == 0 {
		cause = &Error{Projection: s.Projection, AggregateID: s.AggregateID, EventID: u.watermark + 1, Reason: ReasonMissing, Err: errNotStored}
	}
	if cause != nil {
		return b.stopped(ctx, u, s, cause)
	}
	u.aggregate = &aggregate{id: s.AggregateID, events: b.viewPage(events, u.watermark+1), units: []*unit{u}}
	u.read = u.aggregate.last()
	b.aggregates = []*aggregate{u.aggregate}
	b.project(ctx, b.units)
	if u.conflict != nil && u.trouble != nil && s.Final && ctx.Err() == nil {
		u.cause, u.trouble = u.conflict, nil
		b.park(ctx, b.units)
	}
	b.count(nil)
	switch {
	case u.trouble != nil:
		return b.unavailable(u, s)
	case u.cause != nil:
		return Resumed{Watermark: u.watermark, Cause: u.cause}
	}
	return Resumed{Watermark: u.watermark}
}

// unavailable is the result of a unit that is in trouble.
func (b *batch) unavailable(u *unit, s Suspended) Resumed {
	return Resumed{Watermark: u.watermark, Cause: &Error{
		Projection: s.Projection, AggregateID: s.AggregateID, EventID: u.watermark + 1, Reason: ReasonUnavailable, Err: u.trouble,
	}}
}

// stopped is the result of a unit that cannot continue because of cause. It parks the unit
// if the cause is permanent.
func (b *batch) stopped(ctx context.Context, u *unit, s Suspended, cause *Error) Resumed {
	if cause.Reason.Resumes() || ctx.Err() != nil {
		return Resumed{Watermark: u.watermark, Cause: cause}
	}
	head := &event.Event{Keys: event.Keys{AggregateID: s.AggregateID, EventID: max(s.Head, cause.EventID)}, RawAggregateID: s.RawAggregateID}
	u.aggregate = &aggregate{id: s.AggregateID, events: []*eventView{viewEvent(head)}, units: []*unit{u}}
	u.cause = cause
	if b.park(ctx, []*unit{u}); u.trouble != nil {
		return b.unavailable(u, s)
	}
	return Resumed{Watermark: u.watermark, Cause: cause}
}
