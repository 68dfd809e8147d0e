package project

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-cdc/penstock/pkg/backoff"
)

// maxStale bounds how often a unit is folded again because others wrote first. Two
// are enough unless another process works on the same session.
const maxStale = 8

// run works in rounds: load, fold, write what can be written, and again for the
// units that have more to do.
func (b *batch) run(ctx context.Context) error {
	active, err := b.units, error(nil)
	wait := b.waits()
	if !b.strict {
		active, err = b.untilUntroubled(ctx, active, b.skipParked)
	}
	contended := false
	for len(active) > 0 && err == nil {
		var trouble error
		active, trouble = b.round(ctx, active)
		kept := active[:0]
		for _, u := range active {
			if u.stale > maxStale {
				contended = true
				continue
			}
			kept = append(kept, u)
		}
		active = kept
		switch {
		case len(active) == 0:
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case trouble != nil || slices.ContainsFunc(active, func(u *unit) bool { return u.stale > 1 }):
			// A stale unit reads what a majority has; the write that was faster may still
			// be on its way there.
			err = b.pause(ctx, wait, trouble)
		default:
			wait.Reset()
		}
	}
	if err == nil && contended {
		return ErrContended
	}
	return err
}

// untilUntroubled repeats step with backoff.
func (b *batch) untilUntroubled(ctx context.Context, units []*unit, step func(context.Context, []*unit) ([]*unit, error)) ([]*unit, error) {
	wait := b.waits()
	for {
		left, trouble := step(ctx, units)
		if trouble == nil {
			return left, nil
		}
		if err := b.pause(ctx, wait, trouble); err != nil {
			return left, err
		}
	}
}

// waits are those between attempts, anew.
func (b *batch) waits() *backoff.Backoff {
	return &backoff.Backoff{First: b.backoff, Most: b.maxBackoff}
}

// pause waits, longer each time, or until ctx ends.
func (b *batch) pause(ctx context.Context, waits *backoff.Backoff, trouble error) error {
	wait := waits.Next()
	if trouble != nil && ctx.Err() == nil {
		b.log.Warn().Err(trouble).Dur("wait", wait).Msg("projecting again after trouble")
	}
	return backoff.Wait(ctx, wait)
}

// round takes each unit one step further and gives those that need another.
func (b *batch) round(ctx context.Context, units []*unit) (again []*unit, trouble error) {
	loaded, err := b.store.Load(ctx, keys(units))
	if err != nil {
		return units, fmt.Errorf("load read models: %w", err)
	}
	var writing, gapped, failing []*unit
	for i, u := range units {
		if u.finished() {
			continue
		}
		if loaded[i].Err != nil {
			u.cause = u.failure(u.firstOpen(), ReasonDocument, loaded[i].Err)
			failing = append(failing, u)
			continue
		}
		u.document, u.watermark = loaded[i].Document, loaded[i].Watermark
		u.settleUpToWatermark()
		u.plan(b.strict)
		switch {
		case u.finished():
		case len(u.run) == 0:
			gapped = append(gapped, u)
		default:
			u.fold = u.projection.fold(u.document, u.run)
			if u.fold.Folded == 0 {
				u.cause = u.fold.Err
				failing = append(failing, u)
			} else {
				writing = append(writing, u)
			}
		}
	}
	written, err := b.write(ctx, writing)
	if err != nil {
		again, trouble = append(again, writing...), err
		written = nil
	}
	for i, result := range written {
		u := writing[i]
		switch result.Status {
		case WriteApplied:
			failed := u.fold.Err
			u.settleRun()
			u.stale = 0
			switch {
			case failed != nil:
				u.cause = failed
				failing = append(failing, u)
			case u.finished():
			case u.single || len(u.missing) > 0:
				again = append(again, u)
			default:
				gapped = append(gapped, u)
			}
		case WriteStale:
			u.stale++
			again = append(again, u)
		case WriteRejected:
			if len(u.run) == 1 {
				u.cause = u.failure(u.run[0], ReasonRejected, result.Err)
				failing = append(failing, u)
			} else {
				u.single = true
				again = append(again, u)
			}
		default:
			u.attempted = max(u.attempted, u.run[u.fold.Folded-1].EventID)
			again, trouble = append(again, u), errors.Join(trouble, result.Err)
		}
	}
	for _, step := range []struct {
		units []*unit
		do    func(context.Context, []*unit) ([]*unit, error)
	}{{gapped, b.close}, {failing, b.park}} {
		left, err := step.do(ctx, step.units)
		again, trouble = append(again, left...), errors.Join(trouble, err)
	}
	return again, trouble
}

func keys(units []*unit) []Unit {
	keys := make([]Unit, len(units))
	for i, u := range units {
		keys[i] = u.Unit
	}
	return keys
}

func (b *batch) write(ctx context.Context, units []*unit) ([]Written, error) {
	if len(units) == 0 {
		return nil, nil
	}
	writes := make([]Write, len(units))
	for i, u := range units {
		writes[i] = Write{
			Unit: u.Unit, Kind: u.fold.Kind,
			From: u.watermark, To: u.run[u.fold.Folded-1].EventID,
			Document: u.fold.Document, Update: u.fold.Update,
		}
	}
	written, err := b.store.Write(ctx, writes)
	if err != nil {
		for i, u := range units {
			u.attempted = max(u.attempted, writes[i].To)
		}
		return nil, fmt.Errorf("write read models: %w", err)
	}
	return written, nil
}

// firstOpen is the first event that is not done with, from the event store or the
// batch.
func (u *unit) firstOpen() *eventView {
	if len(u.missing) > 0 {
		return u.missing[0]
	}
	return u.aggregate.events[len(u.settled)]
}

func (u *unit) failure(ev *eventView, reason Reason, err error) *Error {
	return &Error{Projection: u.Projection, AggregateID: ev.AggregateID, EventID: ev.EventID, EventType: ev.EventType, Reason: reason, Err: err}
}

// settleUpToWatermark settles the events that the read model already has.
func (u *unit) settleUpToWatermark() {
	for !u.finished() {
		n := u.aggregate.events[len(u.settled)].EventID
		if n > u.watermark {
			break
		}
		s := settledDuplicate
		if n <= u.attempted {
			s = settledApplied
		}
		u.settled = append(u.settled, s)
	}
	for len(u.missing) > 0 && u.missing[0].EventID <= u.watermark {
		u.missing = u.missing[1:]
	}
}

// plan chooses the events to fold next: those that follow the watermark.
func (u *unit) plan(strict bool) {
	u.run = u.run[:0]
	v := u.watermark
	for _, events := range [2][]*eventView{u.missing, u.aggregate.events[len(u.settled):]} {
		for _, ev := range events {
			switch {
			case ev.EventID <= v:
				continue
			case strict && ev.EventID != v+1, u.single && len(u.run) == 1:
				return
			}
			u.run = append(u.run, ev)
			v = ev.EventID
		}
	}
}

// settleRun settles what has just been written.
func (u *unit) settleRun() {
	done := u.run[:u.fold.Folded]
	u.watermark = done[len(done)-1].EventID
	for i, ev := range done {
		if len(u.missing) > 0 && u.missing[0] == ev {
			u.missing = u.missing[1:]
			u.repaired++
			continue
		}
		s := settledIgnored
		if u.fold.Applied[i] {
			s = settledApplied
		}
		u.settled = append(u.settled, s)
		// The same event may be in the batch twice.
		for !u.finished() && u.aggregate.events[len(u.settled)].EventID == ev.EventID {
			u.settled = append(u.settled, settledDuplicate)
		}
	}
	// A page from the event store is not kept in memory by what it was used for.
	clear(u.run)
	u.run, u.fold, u.document = u.run[:0], Fold{}, nil
	if len(u.missing) == 0 {
		u.missing = nil
	}
}

// settleRest settles all that is left.
func (u *unit) settleRest(s settlement) {
	for !u.finished() {
		u.settled = append(u.settled, s)
	}
}

// park parks units at their causes.
func (b *batch) park(ctx context.Context, units []*unit) (again []*unit, trouble error) {
	for _, u := range units {
		if err := b.parking.Park(ctx, u.Unit, u.cause, u.aggregate.last()); err != nil {
			again, trouble = append(again, u), errors.Join(trouble, fmt.Errorf("park %s of %s: %w", u.AggregateID, u.Projection, err))
			continue
		}
		b.log.Error().Err(u.cause.Err).Str("projection", u.Projection).Str("aggregateId", u.AggregateID).
			Int64("eventId", u.cause.EventID).Str("eventType", u.cause.EventType).Str("reason", string(u.cause.Reason)).
			Msg("parked an aggregate: its later events wait")
		// The event that failed, in all its copies; it may also have come from the event
		// store alone.
		for !u.finished() && u.aggregate.events[len(u.settled)].EventID == u.cause.EventID {
			u.settled = append(u.settled, settledPoison)
		}
		u.settleRest(settledParked)
	}
	return again, trouble
}

// skipParked acknowledges what is for parked units, and gives the others. One that has
// got beyond the event that it was parked at is no longer parked, whatever the list
// says: whoever parked it lost a race, or that event came again and passed.
func (b *batch) skipParked(ctx context.Context, units []*unit) (rest []*unit, trouble error) {
	if len(units) == 0 {
		return nil, nil
	}
	parked, err := b.parking.Parked(ctx, keys(units))
	if err != nil {
		return units, fmt.Errorf("look up parked aggregates: %w", err)
	}
	for i, u := range units {
		if parked[i] <= u.watermark {
			rest = append(rest, u)
			continue
		}
		if err := b.parking.Advance(ctx, u.Unit, u.aggregate.last()); err != nil {
			return units, fmt.Errorf("advance parked %s of %s: %w", u.AggregateID, u.Projection, err)
		}
		u.settleRest(settledParked)
	}
	return rest, nil
}

// close deals with units whose next event is not there: parked ones are done with,
// for the others the event store is asked, or they are held.
func (b *batch) close(ctx context.Context, units []*unit) (again []*unit, trouble error) {
	open, trouble := b.skipParked(ctx, units)
	if trouble != nil {
		return open, trouble
	}
	var read portion
	for _, u := range open {
		if b.gaps != Repair || b.repairer == nil {
			u.held = true
			b.metrics.gaps.WithLabelValues(gapHeld).Inc()
			continue
		}
		events, err := read.missing(ctx, b.repairer, u)
		switch {
		case errors.Is(err, errPortionFull):
			again = append(again, u)
		case err != nil:
			again, trouble = append(again, u), errors.Join(trouble, fmt.Errorf("read missing events of %s: %w", u.AggregateID, err))
		case len(events) == 0:
			u.held = true
			b.metrics.gaps.WithLabelValues(gapMissing).Inc()
		default:
			u.missing = events
			again = append(again, u)
			b.metrics.gaps.WithLabelValues(gapRepaired).Inc()
		}
	}
	return again, trouble
}
