package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/tracing"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// maxParkedLooks bounds how often one call looks up parked units again because one of them
// was resumed meanwhile.
const maxParkedLooks = 3

// skipParked acknowledges the events of parked units and returns the other units. If a
// unit's watermark has passed the event at which it was parked, it no longer counts as
// parked, even if it is in the list: the process that parked it lost a race, or the event
// succeeded later. A unit that resumes by itself counts as parked as long as it is in the
// list.
func (b *batch) skipParked(ctx context.Context, units []*unit) (rest []*unit) {
	var err error
	attempt, cancel := b.oneAttempt(ctx)
	defer cancel()
	for range maxParkedLooks {
		if len(units) == 0 || ctx.Err() != nil {
			return nil
		}
		var parked []*unit
		if parked, rest, err = b.lookUp(attempt, units); err != nil {
			break
		}
		if len(parked) == 0 {
			return rest
		}
		heads := make([]model.Head, len(parked))
		for i, u := range parked {
			heads[i] = model.Head{Unit: u.Unit, EventID: u.aggregate.last()}
		}
		if err = b.parking.Advance(attempt, heads); err == nil {
			for _, u := range parked {
				u.settleRest(settledParked)
			}
			return rest
		}
		err = fmt.Errorf("advance %d parked aggregates: %w", len(parked), err)
	}
	b.unparkable(units, mongox.Explain(attempt, err))
	return nil
}

// lookUp separates parked units from the rest.
func (b *batch) lookUp(ctx context.Context, units []*unit) (parked, rest []*unit, err error) {
	positions, err := b.parking.Parked(ctx, keys(units))
	if err != nil {
		return nil, nil, fmt.Errorf("look up parked aggregates: %w", err)
	}
	for i, u := range units {
		if p := positions[i]; p.Resumes || p.EventID > u.watermark {
			parked = append(parked, u)
		} else {
			rest = append(rest, u)
		}
	}
	return parked, rest, nil
}

// parkGrace is how long the parking may take after the call has ended. An event that takes
// all the time of its call must be parked at its end, or it would be tried for ever.
const parkGrace = 500 * time.Millisecond

// outlasting returns a context that ends d after ctx.
func outlasting(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return longer, func() {
		stop()
		cancel()
	}
}

// park parks units at their causes.
func (b *batch) park(ctx context.Context, units []*unit) {
	if len(units) == 0 {
		return
	}
	parked := make([]model.Marker, len(units))
	for i, u := range units {
		parked[i] = u.cause.Marker(u.Unit, u.aggregate.raw(), max(u.aggregate.last(), u.head))
	}
	parking, cancel := outlasting(ctx, parkGrace)
	defer cancel()
	if err := b.parking.Park(parking, parked); err != nil {
		b.unparkable(units, fmt.Errorf("park %d aggregates: %w", len(units), err))
		return
	}
	traced := tracing.EventsOf(ctx)
	for _, u := range units {
		u.trouble, u.held = nil, false
		level := zerolog.ErrorLevel
		switch {
		case u.target.Building:
			level = zerolog.DebugLevel // the build counts its parked aggregates
		case u.cause.Reason.Resumes():
			level = zerolog.WarnLevel
		}
		b.log.WithLevel(level).Err(u.cause.Err).Str("projection", u.Projection).Int64("generation", u.Generation).Str("aggregateId", u.AggregateID).
			Int64("eventId", u.cause.EventID).Str("eventType", u.cause.EventType).Str("reason", string(u.cause.Reason)).
			Bool("resumes", u.cause.Reason.Resumes()).EmbedObject(traced.Of(u.AggregateID, u.cause.EventID)).Msg("aggregate parked; its later events wait in the event store")
		u.settleRest(settledParked)
	}
}

// unparkable marks units as in trouble because of a promotion, or because the parking list
// does not answer. That says nothing about the units, so they are not parked.
func (b *batch) unparkable(units []*unit, err error) {
	for _, u := range units {
		u.trouble, u.unparkable = err, true
	}
}

// parkRest parks those of the units that cannot go on although the store answers.
func (b *batch) parkRest(ctx context.Context, units []*unit) {
	var parking []*unit
	for _, u := range units {
		switch {
		case u.unparkable || u.finished():
		case u.held:
			u.cause = &projection.Error{
				Projection: u.Projection, AggregateID: u.AggregateID, EventID: u.watermark + 1, Reason: projection.ReasonMissing,
				Err: notStored(u.watermark + 1),
			}
			parking = append(parking, u)
		case u.trouble == nil:
		case u.conflicting():
			u.cause = u.conflict
			parking = append(parking, u)
		case u.answered || b.answers():
			u.cause = u.failure(u.firstOpen(), projection.ReasonUnavailable, u.trouble)
			parking = append(parking, u)
		}
	}
	b.park(ctx, parking)
}

// parkHanging parks units whose writes have taken all the time of the call. Otherwise the
// caller would wait for them again and again.
func (b *batch) parkHanging(ctx context.Context) {
	if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return
	}
	var hanging []*unit
	for _, u := range b.units {
		if u.trouble == nil && u.unknown > 0 {
			u.trouble = context.Cause(ctx)
		}
		if u.trouble != nil {
			hanging = append(hanging, u)
		}
	}
	b.parkRest(ctx, hanging)
}

// answers reports whether the store has answered a write since the caller could not finish the
// events for the first time. If the store has answered no write, most likely the store causes
// the trouble, and not the units.
func (b *batch) answers() bool {
	return !b.since.IsZero() && b.answered.Load() >= b.since.UnixNano()
}

// Park parks the aggregates of unreadable events, in every projection that the events
// concern. reason is [ReasonMissing] or [ReasonUnavailable], and err is the reason as an
// error. Park uses only the events' keys and raw aggregate ids. Their outcome is then Done,
// because the units resume from the event store. Retry with an error means that they
// could not be parked, or that the reason is [ReasonUnavailable] and may be an outage: see
// [Engine.Process] for since.
func (e *Engine) Park(ctx context.Context, events []*event.Event, reason projection.Reason, err error, since time.Time) ([]model.Verdict, error) {
	targets := e.snapshot()
	b := e.newBatch(targets, nil, events, since)
	if b.targets == nil {
		return make([]model.Verdict, len(events)), errNoTargets
	}
	if reason == projection.ReasonUnavailable && !b.answers() {
		return make([]model.Verdict, len(events)), err
	}
	for _, u := range b.units {
		u.cause = u.failure(u.firstOpen(), reason, err)
	}
	b.park(ctx, b.units)
	b.deferRest()
	b.count(tracing.EventsOf(ctx))
	return b.verdicts(b.trouble())
}
