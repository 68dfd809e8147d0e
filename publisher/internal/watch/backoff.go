package watch

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff waits longer after each failure in a row, with jitter, so that many
// publishers do not come back to a recovering server at the same moment.
type backoff struct {
	first, most time.Duration
	next        time.Duration
}

// reset says that things work again.
func (b *backoff) reset() { b.next = 0 }

// delay is the next wait: half fixed, half random.
func (b *backoff) delay() time.Duration {
	if b.next == 0 {
		b.next = b.first
	}
	d := b.next/2 + rand.N(b.next/2+1)
	b.next = min(2*b.next, b.most)
	return d
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
