package drain

import (
	"context"
	"time"

	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

const (
	// HandleTimeout bounds one Handle call. It is longer than one request of the handler, so
	// that a call in which a request hangs still has time to park its aggregate. A call that
	// returns in time shows that the slot makes progress.
	HandleTimeout = 15 * time.Second
	// firstRetryPause and maxRetryPause bound the pause of a session before it tries its
	// events again.
	firstRetryPause = 100 * time.Millisecond
	maxRetryPause   = 5 * time.Second
)

// call is the call of the handler that is running.
type call struct {
	batch    []*Delivery
	verdicts []model.Verdict
	begun    time.Time
	cancel   context.CancelFunc
}

// trouble says that a session waits because a store does not answer. The zero value says that
// it does not wait.
type trouble struct {
	// since is when the first call began that could not finish its events.
	since time.Time
	// attempts counts the calls in a row that have finished nothing, and due is when the next
	// one begins.
	attempts int
	due      time.Time
}

func (t trouble) waits() bool { return !t.since.IsZero() }

// startCall starts the next call, if none is running and the session does not wait.
func (s *session) startCall(work context.Context, now time.Time) {
	if s.running != nil || len(s.queue.order) == 0 || s.trouble.due.After(now) || s.trouble.waits() && !s.ended.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(work, HandleTimeout)
	c := &call{batch: s.queue.next(s.options.BatchSize), begun: now, cancel: cancel}
	s.running = c
	since := s.trouble.since
	s.workers.Do(func() {
		defer cancel()
		c.verdicts = s.handler.Handle(ctx, c.batch, since)
		s.returned <- c
	})
}

// finish handles the call that has returned.
func (s *session) finish(work context.Context, c *call) {
	s.running, s.active = nil, time.Now()
	s.heartbeat.Beat()
	if len(c.verdicts) != len(c.batch) {
		s.log.Error().Int("events", len(c.batch)).Int("results", len(c.verdicts)).Msg("number of results differs from the number of events; retrying the events")
		c.verdicts = make([]model.Verdict, len(c.batch))
	}
	done, retried := s.queue.finish(c.batch, c.verdicts)
	s.wait(c, retried, len(done) > 0)
	for _, d := range done {
		s.settler.settle(work, d)
	}
}

// wait makes the session wait if events of a call are to be tried again.
func (s *session) wait(c *call, retried, progress bool) {
	before := s.trouble.waits()
	switch {
	case !retried:
		s.trouble = trouble{}
	case !before:
		s.trouble = trouble{since: c.begun}
	case progress:
		s.trouble.attempts = 0
	}
	if retried {
		s.trouble.attempts++
		s.trouble.due = s.active.Add(poll.After(firstRetryPause, maxRetryPause, s.trouble.attempts))
	}
	switch {
	case retried && !before:
		s.metrics.waiting.Add(1)
	case before && !retried:
		s.metrics.waiting.Add(-1)
	}
}
