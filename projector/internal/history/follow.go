package history

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// follow continues a history from its watermark to its last event, or parks it.
func (w *Workers) follow(ctx context.Context, h *folded) (counts, error) {
	if h.parkedAt > h.unit.NoEvent() {
		return w.precede(ctx, h)
	}
	if h.watermark < h.first-1 && h.hole == h.unit.FirstEvent() {
		has := "no events"
		if h.watermark > h.unit.NoEvent() {
			has = fmt.Sprintf("the events up to %d", h.watermark)
		}
		err := w.Parking.Park(ctx, []model.Marker{{
			Unit: h.unit, RawAggregateID: h.raw, Reason: string(projection.ReasonHistory),
			Error:   fmt.Sprintf("the history in the event store begins at event %d; the read model has %s", h.first, has),
			Resumes: true, Seldom: true, EventID: h.watermark + 1, Head: h.last,
		}})
		if err != nil {
			return nil, fmt.Errorf("park aggregate %s: %w", h.unit.AggregateID, err)
		}
		return counts{CountParked: 1}, nil
	}
	s := h.suspended(h.last)
	s.Final, s.Parks = true, true
	f, err := engine.CatchUp(ctx, &paced{Workers: w, last: h.watermark}, s, nil)
	if err != nil {
		return nil, err
	}
	c := counts{}
	if f.Watermark > h.watermark {
		c[CountWritten] = 1
	}
	switch cause := f.Cause; {
	case f.Parked:
		c[CountParked] = 1
		if !cause.Reason.Resumes() {
			c[CountFailed] = 1
		}
		return c, nil
	case cause != nil && cause.Reason == projection.ReasonUnavailable:
		return nil, h.unavailable(f)
	case cause != nil:
		return w.stopped(ctx, h, f, c[CountWritten])
	case f.Watermark < h.last:
		return nil, fmt.Errorf("fold aggregate %s of %s: %w", h.unit.AggregateID, h.unit.Projection, errNoProgress)
	}
	return c, nil
}

// precede brings a history up to the event at which it is parked. A read model that was restored
// from a backup can lack events before that one; nothing else delivers them. If it cannot be
// brought there, it stays behind until the next sweep: its range does not wait for it.
func (w *Workers) precede(ctx context.Context, h *folded) (counts, error) {
	f, err := engine.CatchUp(ctx, &paced{Workers: w, last: h.watermark}, h.suspended(h.parkedAt-1), nil)
	switch cause := f.Cause; {
	case err != nil:
		return nil, err
	case cause == nil || cause.Reason != projection.ReasonUnavailable:
	case f.Interrupted, w.Reachable != nil && w.Reachable(ctx) != nil:
		return nil, h.unavailable(f)
	}
	c := counts{CountParked: 1}
	if f.Watermark > h.watermark {
		c[CountWritten] = 1
	}
	return c, nil
}

// paced continues one unit at the pace of the workers. Before each page, it waits for the events of the
// page before, whose number was not known.
type paced struct {
	*Workers
	last   int64
	events int
}

func (p *paced) Resume(ctx context.Context, s engine.Suspended) (engine.Resumed, error) {
	end, err := p.begin(ctx, p.events)
	if err != nil {
		return engine.Resumed{}, err
	}
	defer end()
	r, err := p.Engine.Resume(ctx, s)
	p.events, p.last = int(max(r.Watermark-p.last, 0)), r.Watermark
	return r, err
}

// suspended is the history for [engine.CatchUp], which brings it forward to a head.
func (h *folded) suspended(head int64) engine.Suspended {
	return engine.Suspended{
		Projection: h.unit.Projection, Generation: h.unit.Generation,
		AggregateID: h.unit.AggregateID, RawAggregateID: h.raw, Head: head,
	}
}

// unavailable is the error of a history that a store does not let continue.
func (h *folded) unavailable(f engine.Resumed) error {
	return fmt.Errorf("fold aggregate %s of %s from event %d: %w", h.unit.AggregateID, h.unit.Projection, f.Watermark+1, f.Cause)
}

// errNoProgress says that a page of events did not move the watermark.
var errNoProgress = errors.New("the watermark does not move, because other processes keep writing")

// stopped parks a history that lacks an event, so that it resumes by itself. If only events that break the contract are left, the history is complete,
// because the stream does not deliver those either.
func (w *Workers) stopped(ctx context.Context, h *folded, f engine.Resumed, written int64) (counts, error) {
	if f.Cause.Reason == projection.ReasonMissing {
		more := false
		a := aggregate{id: h.unit.AggregateID, raw: h.raw}
		err := w.readFrom(ctx, &a, f.Watermark+1, bson.Timestamp{}, func([]*event.Event) { more = true })
		if err != nil || !more {
			return counts{CountWritten: written, CountUnreadable: 1}, err
		}
	}
	if err := w.Parking.Park(ctx, []model.Marker{f.Cause.Marker(h.unit, h.raw, h.last)}); err != nil {
		return nil, fmt.Errorf("park aggregate %s: %w", h.unit.AggregateID, err)
	}
	return counts{CountParked: 1, CountWritten: written}, nil
}
