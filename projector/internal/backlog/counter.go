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
	// staleAfter is the number of intervals for which a count is reported. minFresh is
	// the shortest time for which it is reported.
	staleAfter = 3
	minFresh   = time.Minute
	// minTimeout is the shortest timeout of a count. The timeout is the interval if that
	// is longer.
	minTimeout = 30 * time.Second
	// busyWait is the shortest wait after the broker has throttled a request (error
	// 50009, which says "wait 2 seconds"). maxBusyWait is the longest, unless the
	// interval is longer:
	// https://learn.microsoft.com/azure/service-bus-messaging/service-bus-throttling
	busyWait    = 10 * time.Second
	maxBusyWait = 5 * time.Minute
)

// errSlow is the cause of the context of a count that takes too long.
var errSlow = errors.New("the count has taken too long")

// Counter counts the sessions that have messages. Make it with [New].
type Counter struct {
	options Options
	metrics *metrics

	// Only Run uses the following fields.

	connection *sbus.Kept[Connection]
	// failed counts the failures in a row. throttled counts those at which the broker
	// throttled.
	failed, throttled int
}

// New makes a counter and registers its metrics. It makes no request.
func New(o Options) *Counter {
	o = o.withDefaults()
	return &Counter{options: o, metrics: newMetrics(&o), connection: sbus.Keep(o.Dial, o.Logger)}
}

// Run counts until ctx ends, and returns nil. Failures appear in the metrics and in the
// log. Run must be called only once.
func (c *Counter) Run(ctx context.Context) error {
	defer c.connection.Close()
	poll.Spread(ctx, c.options.Interval, func() time.Duration { return c.look(ctx) })
	return nil
}

// look counts once, and returns the wait until the next count.
func (c *Counter) look(ctx context.Context) time.Duration {
	o := &c.options
	counting, cancel := context.WithTimeoutCause(ctx, max(o.Interval, minTimeout), errSlow)
	defer cancel()
	start := time.Now()
	sessions, err := c.count(counting)
	switch {
	case ctx.Err() != nil:
		return 0 // Run ends and does not use it.
	case err == nil:
		c.metrics.counted(sessions, start)
		if c.failed > 0 {
			o.Logger.Info().Int("sessions", sessions).Msg("sessions with messages counted again")
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
		// Log only the first failure: a lasting one would fill the log.
		o.Logger.Warn().Err(err).Msg("sessions with messages not counted; retrying. Autoscaling ignores this process until then")
	}
	return c.wait()
}

// wait returns the time until the next count after a failure. While the broker throttles,
// the waits become longer.
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

// count counts the sessions page by page, up to the limit.
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
