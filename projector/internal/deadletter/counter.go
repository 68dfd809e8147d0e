package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// errSlow is the cause of work on the queue that takes too long.
var errSlow = errors.New("the work on the dead-letter queue has taken too long")

const (
	// staleAfter is for how many intervals a count stands, and minFresh how long it
	// stands if they are short.
	staleAfter = 3
	minFresh   = time.Minute
	// minTimeout bounds a count if the interval is shorter; a longer interval bounds it
	// itself.
	minTimeout = 30 * time.Second
	// failedWait is the shortest wait after a failure: after failures the queue is asked less often.
	failedWait = time.Minute
)

// Counter counts dead letters. Make it with [New].
type Counter struct {
	options Options
	metrics *metrics

	// connection, and failing, which is whether the last count failed, are Run's.
	connection *sbus.Kept[Queue]
	failing    bool
}

// New makes a counter; it registers its metrics and connects to nothing yet.
func New(o Options) (*Counter, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("validate options of counting dead letters: %w", err)
	}
	return &Counter{options: o, metrics: newMetrics(&o), connection: sbus.Keep(o.Dial, o.Logger)}, nil
}

// Run counts until ctx ends, and returns nil: a failure shows in the log, and by a
// metric that is absent. It is called once.
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
	messages, err := c.count(counting)
	switch {
	case ctx.Err() != nil:
		return 0 // unused: Run ends
	case err == nil:
		c.metrics.counted(messages, start)
		if c.failing {
			o.Logger.Info().Any("messages", messages).Msg("dead letters counted again")
		}
		c.failing = false
		return o.Interval
	}
	if !c.failing {
		// Once: a lasting reason would fill the log.
		o.Logger.Warn().Err(err).Msg("dead letters not counted; retrying. penstock_projector_dead_letters is absent meanwhile")
	}
	c.failing = true
	return max(o.Interval, failedWait)
}

// count counts the messages by label.
func (c *Counter) count(ctx context.Context) (map[string]int, error) {
	var messages map[string]int
	err := c.connection.Use(ctx, func(q Queue) error {
		messages = make(map[string]int)
		return pages(ctx, q, c.options.Limit, c.options.LimitBytes, func(m *Message) { messages[c.metrics.label(m.Reason)]++ })
	})
	return messages, err
}
