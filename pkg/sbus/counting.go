package sbus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

const (
	// freshIntervals is the number of intervals for which a count is reported. minFresh is
	// the shortest time for which it is reported.
	freshIntervals = 3
	minFresh       = time.Minute
	// minCountTimeout is the shortest timeout of a count. The timeout is the interval if that
	// is longer.
	minCountTimeout = 30 * time.Second
	// closeTimeout bounds the end of a connection.
	closeTimeout = time.Second
	// busyWait is the shortest wait after the broker has throttled a request (error
	// 50009, which says "wait 2 seconds"). maxBusyWait is the longest, unless the
	// interval is longer:
	// https://learn.microsoft.com/azure/service-bus-messaging/service-bus-throttling
	busyWait    = 10 * time.Second
	maxBusyWait = 5 * time.Minute
)

// errSlowCount is the cause of the context of a count that takes too long.
var errSlowCount = errors.New("the count has taken too long")

// CountResult is how a count has ended, as a value of a metric's label.
type CountResult string

// The results of a count. CountBusy says that the broker throttles.
const (
	CountOK     CountResult = "ok"
	CountBusy   CountResult = "busy"
	CountFailed CountResult = "failed"
)

// Closer is a connection that a [Counter] closes.
type Closer interface {
	Close(ctx context.Context) error
}

// Counting configures a [Counter].
type Counting[C Closer, T any] struct {
	// Dial makes a connection. Required.
	Dial func() (C, error)
	// Interval is the time between two counts, randomly varied by up to a quarter. Required.
	Interval time.Duration
	// FailedWait is the shortest time between a failed count and the next one.
	FailedWait time.Duration
	// Count counts over a connection. It begins from the start each time. Required.
	Count func(ctx context.Context, connection C) (T, error)
	// Ended is called after each count; nil for nothing.
	Ended func(CountResult)
	// What names what is counted, and Until what follows from a failure, for the log.
	What, Until string
	Logger      zerolog.Logger
}

// Counter counts what a queue or a subscription has, again and again. Make it with
// [NewCounter].
type Counter[C Closer, T any] struct {
	options Counting[C, T]
	last    obs.Expiring[T]

	// Only Run uses the following fields: whether the last count failed, and the last wait if the
	// broker throttled it.
	failing bool
	busy    time.Duration
}

// NewCounter makes a counter. It makes no request.
func NewCounter[C Closer, T any](o Counting[C, T]) *Counter[C, T] {
	c := &Counter[C, T]{options: o}
	c.last.After = max(freshIntervals*o.Interval, minFresh)
	return c
}

// Last returns the last count and the time of its start. fresh says that it is not older than
// three intervals, or a minute. The time is zero if there was no count.
func (c *Counter[C, T]) Last() (count T, at time.Time, fresh bool) { return c.last.Get() }

// Run counts until ctx ends, and returns nil. Failures are logged. Run must be called only
// once.
func (c *Counter[C, T]) Run(ctx context.Context) error {
	poll.Spread(ctx, c.options.Interval, func() time.Duration { return c.look(ctx) })
	return nil
}

// look counts once, and returns the wait until the next count.
func (c *Counter[C, T]) look(ctx context.Context) time.Duration {
	o := &c.options
	counting, cancel := context.WithTimeoutCause(ctx, max(o.Interval, minCountTimeout), errSlowCount)
	defer cancel()
	start := time.Now()
	count, err := c.count(counting)
	result, wait, busy := CountOK, o.Interval, time.Duration(0)
	switch {
	case ctx.Err() != nil:
		return 0 // Run ends and does not use it.
	case err == nil:
		c.last.Set(count, start)
		if c.failing {
			o.Logger.Info().Any("count", count).Msg(o.What + " counted again")
		}
	case Classify(err) == ClassBusy:
		// The waits become longer while the broker throttles.
		result = CountBusy
		wait = max(wait, o.FailedWait, busyWait, min(2*c.busy, maxBusyWait))
		busy = wait
	default:
		result = CountFailed
		wait = max(wait, o.FailedWait)
	}
	c.busy = busy
	if err != nil && !c.failing {
		// Log only the first failure: a lasting one would fill the log.
		o.Logger.Warn().Err(err).Msg(o.What + " not counted; retrying. " + o.Until)
	}
	c.failing = err != nil
	if o.Ended != nil {
		o.Ended(result)
	}
	return wait
}

// count counts over a new connection.
func (c *Counter[C, T]) count(ctx context.Context) (count T, err error) {
	connection, err := c.options.Dial()
	if err != nil {
		return count, fmt.Errorf("open a connection: %w", err)
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if err := connection.Close(ending); err != nil {
			c.options.Logger.Debug().Err(err).Msg("connection not closed cleanly")
		}
	}()
	count, err = c.options.Count(ctx, connection)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return count, err
}
