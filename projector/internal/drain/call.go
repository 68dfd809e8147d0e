package drain

import (
	"context"
	"slices"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

const (
	// handleTimeout bounds one Handle call. The events of a call that times out are
	// retried. A call that returns in time shows that the slot makes progress.
	handleTimeout = 10 * time.Second
	// handleGrace is how much later than its timeout a call may return before the slot
	// stops sending heartbeats.
	handleGrace = time.Second
	// slowCall is how long healthy lanes wait for a running call of other healthy lanes.
	// After that they get a call of their own.
	slowCall = time.Second
	// maxCalls bounds the calls of a session that run at the same time. At most all but
	// one of them are calls of lanes in trouble.
	maxCalls = 4
)

// call is one call of the handler.
type call struct {
	kind  kind
	lanes []*lane
	// batch has the events of the call, lane by lane.
	batch    []*Delivery
	verdicts []model.Verdict
	begun    time.Time
	cancel   context.CancelFunc
}

// take adds the events of a lane, up to limit events in the call.
func (c *call) take(l *lane, limit int) {
	c.lanes = append(c.lanes, l)
	for _, d := range l.deliveries[:min(len(l.deliveries), limit-len(c.batch))] {
		d.called = true
		c.batch = append(c.batch, d)
	}
}

// startCalls starts the calls that are possible now.
func (s *session) startCalls(work context.Context, now time.Time) {
	s.lanes.wakeDue(now)
	for len(s.running) < maxCalls {
		var c *call
		if s.awaited(now) == nil {
			c = s.lanes.next(now, s.options.BatchSize, false)
		}
		// A session that ends gives lanes in trouble back instead.
		if c == nil && s.ended.IsZero() && s.inTrouble() < maxCalls-1 {
			c = s.lanes.next(now, s.options.BatchSize, true)
		}
		if c == nil {
			return
		}
		s.start(work, c, now)
	}
}

// start starts a call; the goroutine sends it to s.returned.
func (s *session) start(work context.Context, c *call, now time.Time) {
	ctx, cancel := context.WithTimeout(work, handleTimeout)
	c.begun, c.cancel = now, cancel
	s.running = append(s.running, c)
	s.handling.Add(1)
	s.workers.Do(func() {
		defer s.handling.Done()
		defer cancel()
		c.verdicts = s.handler.Handle(ctx, c.batch, attempts[c.kind])
		s.returned <- c
	})
}

// finish handles a call that has returned.
func (s *session) finish(work context.Context, c *call) {
	s.running = slices.DeleteFunc(s.running, func(r *call) bool { return r == c })
	s.active = time.Now()
	if c.kind == fresh {
		s.flowed = s.active
	}
	if !s.overdue(s.active) {
		s.heartbeat.Beat()
	}
	if len(c.verdicts) != len(c.batch) {
		s.log.Error().Int("events", len(c.batch)).Int("results", len(c.verdicts)).Msg("number of results differs from the number of events; retrying the events")
		c.verdicts = make([]model.Verdict, len(c.batch))
	}
	if slices.ContainsFunc(c.verdicts, func(v model.Verdict) bool { return v.Answered }) {
		s.lanes.failures.answered(s.active)
	}
	finished := s.lanes.apply(c, s.active)
	if len(finished) == 0 {
		return
	}
	round := s.settler.begin(work)
	defer round.end()
	for _, done := range finished {
		round.settle(done)
	}
}

// awaited is the call of healthy lanes that other healthy lanes wait for; nil if there is
// none.
func (s *session) awaited(now time.Time) *call {
	for _, c := range s.running {
		if c.kind == fresh && now.Sub(c.begun) < slowCall {
			return c
		}
	}
	return nil
}

// inTrouble counts the running calls of lanes in trouble.
func (s *session) inTrouble() int {
	n := 0
	for _, c := range s.running {
		if c.kind != fresh {
			n++
		}
	}
	return n
}

// healthy reports whether a call of healthy lanes runs.
func (s *session) healthy() bool { return s.inTrouble() < len(s.running) }

// overdue reports whether a call has not returned although it has timed out.
func (s *session) overdue(now time.Time) bool {
	return slices.ContainsFunc(s.running, func(c *call) bool { return now.Sub(c.begun) > handleTimeout+handleGrace })
}
