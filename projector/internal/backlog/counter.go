package backlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/penstock-cdc/penstock/pkg/sbus"
)

const (
	// staleAfter is for how many intervals a count stands, and minFresh how long it
	// does where they are short.
	staleAfter = 3
	minFresh   = time.Minute
	// firstWithin is the part of the interval within which the first count begins: an
	// autoscaler waits for the number of a pod that it has just started.
	firstWithin = 4
	// spread is the part of the interval by which a wait is longer or shorter.
	spread = 4
	// minTimeout bounds a count where the interval is shorter; a longer interval
	// bounds it itself.
	minTimeout = 30 * time.Second
	// busyWait is the shortest wait after the broker has said that it throttles
	// (error 50009), which says "wait 2 seconds", and maxBusyWait the longest, unless
	// the interval is longer:
	// https://learn.microsoft.com/azure/service-bus-messaging/service-bus-throttling
	busyWait    = 10 * time.Second
	maxBusyWait = 5 * time.Minute
	// closeTimeout bounds the end of a connection.
	closeTimeout = time.Second
)

// errSlow is the cause of a count that takes too long.
var errSlow = errors.New("the count has taken too long")

// Counter counts the sessions that have messages. Make it with [New].
type Counter struct {
	options Options
	metrics *metrics

	// What follows is Run's.

	// connection is nil where there is none.
	connection Connection
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
	return &Counter{options: o, metrics: newMetrics(&o)}, nil
}

// Run counts until ctx ends, and returns nil: trouble shows in the metrics and in
// the log. It is called once.
func (c *Counter) Run(ctx context.Context) error {
	defer c.hangUp()
	timer := time.NewTimer(rand.N(c.options.Interval/firstWithin + 1))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		wait := c.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		timer.Reset(wait)
	}
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
		return 0 // nobody waits for it
	case err == nil:
		c.metrics.counted(sessions, start)
		if c.failed > 0 {
			o.Logger.Info().Int("sessions", sessions).Msg("sessions that have messages are counted again")
		}
		c.failed, c.throttled = 0, 0
		return around(o.Interval)
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
	return around(c.wait())
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

// around gives a time that is up to a quarter longer or shorter.
func around(d time.Duration) time.Duration {
	return d - d/spread + rand.N(2*(d/spread)+1)
}

// count counts, over the connection that is there or a new one. A connection that
// did not work is given up.
func (c *Counter) count(ctx context.Context) (int, error) {
	kept := c.connection != nil
	sessions, err := c.pages(ctx)
	if kept && sbus.Classify(err) == sbus.ClassConnectionLost {
		// It can have been lost since the last count: the broker closes a connection
		// without links after a minute to five.
		c.hangUp()
		sessions, err = c.pages(ctx)
	}
	if err != nil && sbus.Classify(err) != sbus.ClassBusy {
		c.hangUp()
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return sessions, err
}

// pages reads pages up to the limit.
func (c *Counter) pages(ctx context.Context) (int, error) {
	if c.connection == nil {
		connection, err := c.options.Dial()
		if err != nil {
			return 0, fmt.Errorf("open a connection: %w", err)
		}
		c.connection = connection
	}
	sessions := 0
	for pages := c.connection.Sessions(); pages.More() && sessions < c.options.Limit; {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return 0, fmt.Errorf("list sessions after the first %d: %w", sessions, err)
		}
		sessions += len(page.Sessions)
	}
	return sessions, nil
}

// hangUp closes the connection, if there is one.
func (c *Counter) hangUp() {
	if c.connection == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := c.connection.Close(ctx); err != nil {
		c.options.Logger.Debug().Err(err).Msg("connection not closed cleanly")
	}
	c.connection = nil
}
