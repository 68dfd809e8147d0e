package poll

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff returns waits that double with each consecutive failure, as [After] does. Only
// one goroutine may use it.
type Backoff struct {
	// First and Max bound the waits: the first wait is between First/2 and First, and no
	// wait is longer than Max. Both must be positive.
	First, Max time.Duration

	failures int
}

// Next returns how long to wait after another failure.
func (b *Backoff) Next() time.Duration {
	b.failures++
	return After(b.First, b.Max, b.failures)
}

// Reset ends a series of failures, so that the next wait is again a first one.
func (b *Backoff) Reset() { b.failures = 0 }

// After returns the wait after that many consecutive failures, counted from 1. It doubles
// from first up to limit; both must be positive. The upper half of each wait is random, so
// that many processes do not return to a recovering server at the same moment.
func After(first, limit time.Duration, failures int) time.Duration {
	wait := min(first, limit)
	for ; failures > 1 && wait < limit; failures-- {
		wait += min(wait, limit-wait)
	}
	return wait/2 + rand.N(wait/2+1)
}

// Wait waits for d or until ctx ends. If ctx ends first, Wait returns the cause of ctx.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
