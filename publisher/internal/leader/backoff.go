package leader

import (
	"math/rand/v2"
	"time"
)

// backoff spaces the terms of work that keeps failing. Its shortest wait is longer
// than the longest pause between two attempts of a candidate (2.2 RetryPeriod), so
// that a healthy one takes the lock before this process asks for it again.
type backoff struct {
	shortest, longest, step time.Duration
}

func newBackoff(retryPeriod time.Duration) *backoff {
	return &backoff{shortest: 3 * retryPeriod, longest: 30 * retryPeriod}
}

// next is how long to wait after a term that lasted so long.
// It doubles, within the bounds and with up to half as much again at random, and
// begins anew after a term that outlasted it.
func (b *backoff) next(lasted time.Duration) time.Duration {
	if lasted > b.longest {
		b.step = 0
	}
	b.step = min(max(2*b.step, b.shortest), b.longest)
	return b.step + rand.N(b.step/2+1)
}
