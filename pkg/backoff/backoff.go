package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff gives waits that double with each failure in a row, as [After] does. It is for
// one goroutine.
type Backoff struct {
	// First and Most bound the waits, First by its half: the first one is between
	// First/2 and First. Both are positive.
	First, Most time.Duration

	failures int
}

// Next is how long to wait after another failure.
func (b *Backoff) Next() time.Duration {
	b.failures++
	return After(b.First, b.Most, b.failures)
}

// Reset says that things work again: the waits begin anew.
func (b *Backoff) Reset() { b.failures = 0 }

// After is how long to wait after that many failures in a row, of which the first is 1.
// It doubles from first up to most; both are positive. The upper half of each wait is
// random, so that many processes do not come back to a recovering server at the same
// moment.
func After(first, most time.Duration, failures int) time.Duration {
	wait := min(first, most)
	for ; failures > 1 && wait < most; failures-- {
		wait += min(wait, most-wait)
	}
	return wait/2 + rand.N(wait/2+1)
}

// Wait waits for d or until ctx ends; the error is then its cause.
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
