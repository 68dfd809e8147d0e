package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/tracing"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// processor is the part of [engine.Engine] that handling uses.
type processor interface {
	Process(ctx context.Context, events []*event.Event, since time.Time) ([]model.Verdict, error)
	Park(ctx context.Context, events []*event.Event, reason projection.Reason, err error, since time.Time) ([]model.Verdict, error)
}

// handler passes drained events to the engine.
type handler struct {
	engine processor
	// whole reads the event that a message stands for.
	whole func(ctx context.Context, ev *event.Event) (*event.Event, error)
	// claims bounds the batches that hold events of the event store, to claimBatches.
	claims *semaphore.Weighted
	log    zerolog.Logger
	// unprojected and claimChecks limit the lines about retries: in an outage, every
	// session repeats its events.
	unprojected, claimChecks obs.Repeats
	// tracer makes the spans; nil makes none.
	tracer *tracing.Messages
	// live records that live events are handled, so that the process's jobs yield to them.
	live history.Activity
}

// Events that were too large for the topic might not fit into memory together.
const (
	// maxClaimBytes bounds the bytes of the events that one call reads from the event store;
	// the last event may exceed it.
	maxClaimBytes = 4 << 20
	// claimBatches bounds the batches of the process that hold such events. While an event is
	// read, it can take three times its size.
	claimBatches = 2
	// redeemTimeout bounds the reading of a batch's events. It leaves time for the events that
	// a batch has without it, also if one read hangs.
	redeemTimeout = drain.HandleTimeout / 3
)

var (
	errReadsFull = errors.New("the batch holds enough events of the event store")
	errNotRead   = errors.New("the event store was not asked in time: an earlier event of the batch was slow, or two other batches hold such events")
)

// redeemed counts what one batch has read from the event store.
type redeemed struct {
	// held says that the batch has a part of [handler.claims].
	held  bool
	bytes int
}

// unread are the claim checks of one aggregate that a call could not redeem, and the later
// events of that aggregate.
type unread struct {
	events []*event.Event
	places []int
	// before is the index of the aggregate's event before them, -1 if the batch has none.
	before int
	// reason and err say why. Without a reason the aggregate is not parked.
	reason projection.Reason
	err    error
}

// Handle redeems the claim checks of a batch and passes the events to the engine. If a
// claim check cannot be redeemed, Handle holds back the later events of its aggregate:
// projecting them would skip that event.
func (h *handler) Handle(ctx context.Context, batch []*drain.Delivery, since time.Time) []model.Verdict {
	h.live.Begin()
	defer h.live.End()
	ctx, cancel := mongox.WithoutDeadline(ctx)
	defer cancel()
	verdicts := make([]model.Verdict, len(batch))
	traced := h.trace(batch)
	defer func() {
		for i, d := range batch {
			v := verdicts[i]
			if v.Outcome == model.Deferred {
				v.Err = nil // the event waits, which is no error
			}
			traced.Of(d.Event.AggregateID, d.Event.EventID).EndWith(v.Outcome.String(), v.Err)
		}
	}()
	ctx = traced.In(ctx)
	events := make([]*event.Event, 0, len(batch))
	places := make([]int, 0, len(batch))
	var unredeemed []*unread
	var stuck *unread
	reading := ctx
	var read redeemed
	if slices.ContainsFunc(batch, func(d *drain.Delivery) bool { return d.ClaimCheck }) {
		var cancel context.CancelFunc
		reading, cancel = mongox.Timeout(ctx, redeemTimeout)
		defer func() {
			cancel()
			if read.held {
				h.claims.Release(1)
			}
		}()
	}
	full := ""
	for i, d := range batch {
		ev := &d.Event
		switch {
		case stuck != nil && stuck.events[0].AggregateID == ev.AggregateID:
			stuck.add(ev, i)
			continue
		case full != "" && full == ev.AggregateID:
			verdicts[i].Outcome = model.Deferred
			continue
		case d.ClaimCheck:
			span := traced.Of(ev.AggregateID, ev.EventID)
			whole, err := h.redeem(span.In(reading), &read, ev)
			if errors.Is(err, errReadsFull) {
				full, verdicts[i].Outcome = ev.AggregateID, model.Deferred
				continue
			}
			if err != nil {
				stuck = h.unredeemed(ctx, d, err, span)
				stuck.before = previous(batch, i)
				stuck.add(ev, i)
				unredeemed = append(unredeemed, stuck)
				continue
			}
			ev = whole
		}
		events = append(events, ev)
		places = append(places, i)
	}
	if len(events) > 0 {
		decided, err := h.engine.Process(ctx, events, since)
		h.place(ctx, verdicts, places, decided, err)
	}
	for _, c := range unredeemed {
		h.settle(ctx, c, verdicts, since)
	}
	return verdicts
}

// trace starts the spans of a batch.
func (h *handler) trace(batch []*drain.Delivery) (traced *tracing.Events) {
	if h.tracer == nil {
		return nil
	}
	for _, d := range batch {
		traced = traced.With(&d.Event.Keys, h.tracer.Process(&d.Event.Keys, d.MessageID, d.Properties(), d.Deliveries()))
	}
	return traced
}

// redeem reads the event of a claim check.
func (h *handler) redeem(ctx context.Context, read *redeemed, ev *event.Event) (*event.Event, error) {
	if read.bytes >= maxClaimBytes {
		return nil, errReadsFull
	}
	if !read.held && h.claims.Acquire(ctx, 1) == nil {
		read.held = true
	}
	if ctx.Err() != nil {
		return nil, errNotRead
	}
	began := time.Now()
	whole, err := h.whole(ctx, ev)
	switch {
	case err != nil && ctx.Err() != nil && time.Since(began) < redeemTimeout/2:
		return nil, errNotRead
	case err != nil:
		return nil, mongox.Explain(ctx, err)
	}
	read.bytes += len(whole.Document)
	return whole, nil
}

// previous returns the index of the same aggregate's event before i, -1 if there is none.
func previous(batch []*drain.Delivery, i int) int {
	if i > 0 && batch[i-1].Event.AggregateID == batch[i].Event.AggregateID {
		return i - 1
	}
	return -1
}

func (c *unread) add(ev *event.Event, place int) {
	c.events, c.places = append(c.events, ev), append(c.places, place)
}

// unredeemed returns why a claim check could not be redeemed.
func (h *handler) unredeemed(ctx context.Context, d *drain.Delivery, err error, span tracing.Span) *unread {
	if errors.Is(err, eventstore.ErrNotFound) {
		return &unread{reason: projection.ReasonMissing, err: err}
	}
	if !stopping(ctx) {
		h.claimChecks.Warn(&h.log).Err(err).Str("messageId", d.MessageID).EmbedObject(span).Msg("claim check not redeemed; retrying")
	}
	if errors.Is(err, errNotRead) || ctx.Err() != nil {
		return &unread{err: err}
	}
	return &unread{reason: projection.ReasonUnavailable, err: err}
}

// settle sets the verdicts of the claim checks that could not be redeemed and of the events
// after them. It parks the aggregate, unless an earlier event of the aggregate is not finished.
func (h *handler) settle(ctx context.Context, c *unread, verdicts []model.Verdict, since time.Time) {
	if c.before >= 0 && verdicts[c.before].Outcome != model.Done {
		for _, place := range c.places {
			verdicts[place] = verdicts[c.before]
		}
		return
	}
	if c.reason == "" {
		for _, place := range c.places {
			verdicts[place].Err = c.err
		}
		return
	}
	decided, err := h.engine.Park(ctx, c.events, c.reason, c.err, since)
	h.place(ctx, verdicts, c.places, decided, err)
}

// place puts the engine's verdicts into their places. err is the reason of a Retry.
func (h *handler) place(ctx context.Context, verdicts []model.Verdict, places []int, decided []model.Verdict, err error) {
	h.report(ctx, err, len(decided))
	for i, v := range decided {
		if v.Outcome == model.Retry {
			v.Err = err
		}
		verdicts[places[i]] = v
	}
}

// report logs why events stay pending. Events that wait for a promotion are many, and the
// follower has already logged the pause, so they are logged at debug level only.
func (h *handler) report(ctx context.Context, err error, events int) {
	if err == nil || stopping(ctx) {
		return
	}
	line := h.log.Debug
	if !ofPromotion(err) {
		line = func() *zerolog.Event { return h.unprojected.Warn(&h.log) }
	}
	line().Err(err).Int("events", events).Msg("some events were not projected; retrying")
}

// stopping reports whether a call ends because its session or the process does, and not because
// its own time is up.
func stopping(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// ofPromotion reports whether every part of err says that the writes of a projection are
// paused, or that its generation was replaced.
func ofPromotion(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(part error) bool { return !ofPromotion(part) })
	}
	return errors.Is(err, engine.ErrPaused) || errors.Is(err, model.ErrSuperseded)
}
