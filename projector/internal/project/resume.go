package project

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Suspended is a unit that is to go on from the event store: a parked one, or one that is
// behind.
type Suspended struct {
	Projection, AggregateID string
	// Generation is the generation of the projection; 0 means the first one.
	Generation int64
	// RawAggregateID is the aggregate's id with its type in the event store.
	RawAggregateID bson.RawValue
	// Head is the last event that was acknowledged for the unit, or that the event store
	// has of the aggregate: the unit is caught up when it has that.
	Head int64
	// Final is whether the unit is parked for good because of what may pass: a conflict on
	// a unique value, which otherwise counts as [ReasonUnavailable], or a history that
	// does not begin at event 1, which otherwise counts as [ReasonMissing].
	Final bool
	// Fresh is whether the unit is folded from nothing instead of from what is stored,
	// which may be wrong, up to the head or to its watermark if that is higher. The result
	// replaces what is stored in one write under the usual guard, however many events
	// there are. A writer that has loaded a wrong document before can put it back only if
	// the watermark stays as it was.
	Fresh bool
	// Failed is the event that had parked the unit for good, and is retried on request; 0
	// if there is none. If it fails again the judge is not asked: the unit was parked for it
	// before, and a retry of many units must not look like a wrong projection.
	Failed int64
}

// Resumed is how far a unit has come.
type Resumed struct {
	// Watermark is the last event in its read model; 0 if that could not be loaded.
	Watermark int64
	// Cause is why it went no further; nil if there is more to do, or nothing. If its
	// reason is one that does not resume, the unit is parked for that reason.
	Cause *Error
}

// errNotStored says that the event store has a hole.
var errNotStored = errors.New("the event store does not have the event")

// Resume takes a unit one page of events further: it reads the events that follow its
// watermark from the event store, folds them and writes the result, with
// the same guard as any write. So it does no harm while another process resumes the
// same unit, or while its session's events are applied. The unit is caught up if the
// watermark is at least the head. The caller calls Resume until it is, or until a
// cause says why it cannot be now. A unit that is caught up loses the document of an older
// generation that has taken its place.
//
// The unit's generation must be one of the targets, otherwise the error is
// [model.ErrSuperseded].
//
// The error is ctx's cause if ctx ended; then the result counts for nothing.
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
	// What can never be loaded is found again below, and parks the unit.
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

// stopped is the result of a unit that does not go on because of cause. It is parked if
// that does not pass.
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
