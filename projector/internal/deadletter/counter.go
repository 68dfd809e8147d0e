package deadletter

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// errSlow is the cause of the context of a count that takes too long.
var errSlow = errors.New("the work on the dead-letter queue has taken too long")

const (
	// maxCounted is the largest number of messages that is counted.
	maxCounted = 250
	// staleAfter is the number of intervals for which a count is reported. minFresh is
	// the shortest time for which it is reported.
	staleAfter = 3
	minFresh   = time.Minute
	// minTimeout is the shortest timeout of a count. The timeout is the interval if that
	// is longer.
	minTimeout = 30 * time.Second
	// failedWait is the shortest wait after a failed count.
	failedWait = time.Minute
)

// Counter counts dead letters. Make it with [New].
type Counter struct {
	options Options
	metrics *metrics

	// Only Run uses connection and failing. failing is set if the last count failed.
	connection *sbus.Kept[Queue]
	failing    bool
}

// New makes a counter and registers its metrics. It makes no request.
func New(o Options) *Counter {
	o.Interval = cmp.Or(o.Interval, 30*time.Second)
	return &Counter{options: o, metrics: newMetrics(&o), connection: sbus.Keep(o.Dial, o.Logger)}
}

// Run counts until ctx ends, and returns nil. Failures are logged, and lasting ones
// remove the metric. Run must be called only once.
func (c *Counter) Run(ctx context.Context) error {
	defer c.connection.Close()
	poll.Spread(ctx, c.options.Interval, func() time.Duration { return c.look(ctx) })
	return nil
}

// Messages returns the last count by reason, which the caller must not change; nil if it is
// stale.
func (c *Counter) Messages() map[string]int {
	if messages, _, fresh := c.metrics.messages.Get(); fresh {
		return messages
	}
	return nil
}

// look counts once, and returns the wait until the next count.
func (c *Counter) look(ctx context.Context) time.Duration {
	o := &c.options
	counting, cancel := context.WithTimeoutCause(ctx, max(o.Interval, minTimeout), errSlow)
	defer cancel()
	start := time.Now()
	messages, err := c.count(counting)
	switch {
	case ctx.Err() != nil:
		return 0 // Run ends and does not use it.
	case err == nil:
		c.metrics.messages.Set(messages, start)
		if c.failing {
			o.Logger.Info().Any("messages", messages).Msg("dead letters counted again")
		}
		c.failing = false
		return o.Interval
	}
	if !c.failing {
		// Log only the first failure: a lasting one would fill the log.
		o.Logger.Warn().Err(err).Msg("dead letters not counted; retrying. penstock_projector_dead_letters is absent until then")
	}
	c.failing = true
	return max(o.Interval, failedWait)
}

// count returns the number of messages by label.
func (c *Counter) count(ctx context.Context) (map[string]int, error) {
	var messages map[string]int
	err := c.connection.Use(ctx, func(q Queue) error {
		messages = make(map[string]int)
		return pages(ctx, q, maxCounted, func(m *Message) { messages[c.metrics.label(m.Reason)]++ })
	})
	return messages, err
}
