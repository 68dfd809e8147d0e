package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff gives waits that double with each failure in a row. The upper half of each is
// random, so that many processes do not come back to a recovering server at the same
// moment. It is for one goroutine.
type Backoff struct {
	// First and Most bound the waits, First by its half: the first one is between
	// First/2 and First. Both are positive.
	First, Most time.Duration

	next time.Duration
}

// Next is how long to wait after another failure.
func (b *Backoff) Next() time.Duration {
	if b.next == 0 {
		b.next = min(b.First, b.Most)
	}
	wait := b.next/2 + rand.N(b.next/2+1)
	b.next = min(2*b.next, b.Most)
	return wait
}

// Reset says that things work again: the waits begin anew.
func (b *Backoff) Reset() { b.next = 0 }

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
