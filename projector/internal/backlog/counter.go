package backlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

const (
	// staleAfter is for how many intervals a count stands, and minFresh how long it
	// does where they are short.
	staleAfter = 3
	minFresh   = time.Minute
	// minTimeout bounds a count where the interval is shorter; a longer interval
	// bounds it itself.
	minTimeout = 30 * time.Second
	// busyWait is the shortest wait after the broker has said that it throttles
	// (error 50009), which says "wait 2 seconds", and maxBusyWait the longest, unless
	// the interval is longer:
	// https://learn.microsoft.com/azure/service-bus-messaging/service-bus-throttling
	busyWait    = 10 * time.Second
	maxBusyWait = 5 * time.Minute
)

// errSlow is the cause of a count that takes too long.
var errSlow = errors.New("the count has taken too long")

// Counter counts the sessions that have messages. Make it with [New].
type Counter struct {
	options Options
	metrics *metrics

	// What follows is Run's.

	connection *sbus.Kept[Connection]
	// failed are the failures in a row, throttled those of them that are the broker's
	// wish.
	failed, throttled int
}

// New makes a counter; it registers its metrics and connects to nothing yet.
func New(o Options) (*Counter, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("validate options of counting sessions: %w", err)
	}
	return &Counter{options: o, metrics: newMetrics(&o), connection: sbus.Keep(o.Dial, o.Logger)}, nil
}

// Run counts until ctx ends, and returns nil: trouble shows in the metrics and in
// the log. It is called once.
func (c *Counter) Run(ctx context.Context) error {
	defer c.connection.Close()
	poll.Spread(ctx, c.options.Interval, func() time.Duration { return c.look(ctx) })
	return nil
}

// look counts once, and gives the wait until the next time.
func (c *Counter) look(ctx context.Context) time.Duration {
	o := &c.options
	counting, cancel := context.WithTimeoutCause(ctx, max(o.Interval, minTimeout), errSlow)
	defer cancel()
	start := time.Now()
	sessions, err := c.count(counting)
	switch {
	case ctx.Err() != nil:
		return 0 // unused: Run ends
	case err == nil:
		c.metrics.counted(sessions, start)
		if c.failed > 0 {
			o.Logger.Info().Int("sessions", sessions).Msg("sessions that have messages are counted again")
		}
		c.failed, c.throttled = 0, 0
		return o.Interval
	}
	result := resultFailed
	if sbus.Classify(err) == sbus.ClassBusy {
		result = resultBusy
		c.throttled++
	} else {
		c.throttled = 0
	}
	c.metrics.counts.WithLabelValues(result).Inc()
	c.failed++
	if c.failed == 1 {
		// Once: a lasting reason would fill the log.
		o.Logger.Warn().Err(err).Msg("sessions that have messages are not counted; retrying. Autoscaling ignores this process meanwhile")
	}
	return c.wait()
}

// wait is the time until the next count after one that failed. A broker that
// throttles is asked less and less often.
func (c *Counter) wait() time.Duration {
	if c.throttled == 0 {
		return c.options.Interval
	}
	wait := max(c.options.Interval, busyWait)
	for range c.throttled - 1 {
		if wait >= maxBusyWait {
			break
		}
		wait = min(2*wait, maxBusyWait)
	}
	return wait
}

// count counts the sessions, page by page, up to the limit.
func (c *Counter) count(ctx context.Context) (sessions int, err error) {
	err = c.connection.Use(ctx, func(connection Connection) error {
		sessions = 0
		for pages := connection.Sessions(); pages.More() && sessions < c.options.Limit; {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return fmt.Errorf("list sessions after the first %d: %w", sessions, err)
			}
			sessions += len(page.Sessions)
		}
		return nil
	})
	return sessions, err
}
