package deadletter

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
	// stands if they are short.
	staleAfter = 3
	minFresh   = time.Minute
	// firstWithin is the part of the interval within which the first count begins, and
	// spread the part by which a wait is longer or shorter: processes that start
	// together do not ask together.
	firstWithin = 4
	spread      = 4
	// minTimeout bounds a count if the interval is shorter; a longer interval bounds it
	// itself.
	minTimeout = 30 * time.Second
	// failedWait is the shortest wait after a failure: after failures the queue is asked less often.
	failedWait = time.Minute
	// closeTimeout bounds the end of a connection.
	closeTimeout = time.Second
	// pageBytes is about how much a page may transfer, and maxPage how many messages it
	// may have.
	pageBytes = 1 << 20
	maxPage   = 50
)

// errSlow is the cause of a count that takes too long.
var errSlow = errors.New("the count has taken too long")

// Counter counts dead letters. Make it with [New].
type Counter struct {
	options Options
	metrics *metrics

	// queue is nil if there is no connection, and failing whether the last count failed;
	// both are Run's.
	queue   Queue
	failing bool
}

// New makes a counter; it registers its metrics and connects to nothing yet.
func New(o Options) (*Counter, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("validate options of counting dead letters: %w", err)
	}
	return &Counter{options: o, metrics: newMetrics(&o)}, nil
}

// Run counts until ctx ends, and returns nil: a failure shows in the log, and by a
// metric that is absent. It is called once.
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
		timer.Reset(wait - wait/spread + rand.N(2*(wait/spread)+1))
	}
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
			o.Logger.Info().Int("messages", messages).Msg("dead letters counted again")
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

// count counts, over the connection that is there or a new one.
func (c *Counter) count(ctx context.Context) (int, error) {
	kept := c.queue != nil
	messages, err := c.pages(ctx)
	if kept && sbus.Classify(err) == sbus.ClassConnectionLost {
		// The broker closes connections and links that are idle.
		c.hangUp()
		messages, err = c.pages(ctx)
	}
	if err == nil {
		return messages, nil
	}
	c.hangUp()
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return 0, err
}

// pages peeks up to the limits.
func (c *Counter) pages(ctx context.Context) (int, error) {
	if c.queue == nil {
		queue, err := c.options.Dial()
		if err != nil {
			return 0, fmt.Errorf("open a connection: %w", err)
		}
		c.queue = queue
	}
	messages, size := 0, 0
	from, page := int64(0), 1
	for messages < c.options.Limit && size < c.options.LimitBytes {
		peeked, err := c.queue.Peek(ctx, from, min(page, c.options.Limit-messages))
		if err != nil {
			return 0, fmt.Errorf("peek at dead letters after the first %d: %w", messages, err)
		}
		if len(peeked) == 0 {
			break
		}
		for _, message := range peeked {
			size += message.Bytes
			from = max(from, message.Sequence+1)
		}
		messages += len(peeked)
		page = min(max(pageBytes*messages/max(size, 1), 1), maxPage)
	}
	return messages, nil
}

// hangUp closes the connection, if there is one.
func (c *Counter) hangUp() {
	if c.queue == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := c.queue.Close(ctx); err != nil {
		c.options.Logger.Debug().Err(err).Msg("connection not closed cleanly")
	}
	c.queue = nil
}
