package project

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Suspended is a parked unit that is to go on.
type Suspended struct {
	Projection, AggregateID string
	// Generation is the generation of the projection; 0 means the first one.
	Generation int64
	// RawAggregateID is the aggregate's id with its type in the event store.
	RawAggregateID bson.RawValue
	// Head is the last event that was acknowledged for the unit: it is caught up when it
	// has that.
	Head int64
	// Final is whether a conflict on a unique value parks the unit for good. Otherwise
	// it counts as [ReasonUnavailable].
	Final bool
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

// Resume takes a parked unit one page of events further: it reads the events that
// follow its watermark from the event store, folds them and writes the result, with
// the same guard as any write. So it does no harm while another process resumes the
// same unit, or while its session's events are applied. The unit is caught up if the
// watermark is at least the head. The caller calls Resume until it is, or until a
// cause says why it cannot be now.
//
// The error is ctx's cause if ctx ended; then the result counts for nothing.
func (e *Engine) Resume(ctx context.Context, s Suspended) (Resumed, error) {
	targets := e.snapshot()
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
	unavailable := func(err error) Resumed {
		return Resumed{Watermark: u.watermark, Cause: &Error{
			Projection: s.Projection, AggregateID: s.AggregateID, EventID: u.watermark + 1, Reason: ReasonUnavailable, Err: err,
		}}
	}
	states := b.load(ctx, []*unit{u})
	switch {
	case u.trouble != nil:
		return unavailable(u.trouble)
	case states[0].Unavailable != nil:
		b.store.Release(states)
		return unavailable(states[0].Unavailable)
	}
	// What can never be loaded is found again below, and parks the unit.
	u.watermark = states[0].Watermark
	b.store.Release(states)
	if u.watermark >= s.Head {
		return Resumed{Watermark: u.watermark}
	}
	attempt, cancel := b.oneAttempt(ctx)
	defer cancel()
	if b.repairer == nil {
		return unavailable(errors.New("there is no event store to read from"))
	}
	first := &event.Event{Keys: event.Keys{AggregateID: s.AggregateID}, RawAggregateID: s.RawAggregateID}
	events, err := b.repairer.Missing(attempt, first, u.watermark+1, s.Head, repairPage)
	if err != nil {
		return unavailable(err)
	}
	views := b.viewPage(events, u.watermark+1)
	if len(views) == 0 {
		return Resumed{Watermark: u.watermark, Cause: &Error{
			Projection: s.Projection, AggregateID: s.AggregateID, EventID: u.watermark + 1, Reason: ReasonMissing, Err: errNotStored,
		}}
	}
	u.aggregate = &aggregate{id: s.AggregateID, events: views, units: []*unit{u}}
	u.read = u.aggregate.last()
	b.aggregates, b.units = []*aggregate{u.aggregate}, []*unit{u}
	b.project(ctx, b.units)
	if u.conflict != nil && u.trouble != nil && s.Final && ctx.Err() == nil {
		u.cause, u.trouble = u.conflict, nil
		b.park(ctx, b.units)
	}
	b.count()
	switch {
	case u.trouble != nil:
		return unavailable(u.trouble)
	case u.cause != nil:
		return Resumed{Watermark: u.watermark, Cause: u.cause}
	}
	return Resumed{Watermark: u.watermark}
}
