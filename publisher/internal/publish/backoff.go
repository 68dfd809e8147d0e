package publish

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 10 * time.Second
)

// backoff is how long to wait after that many failures in a row, at least one: it
// doubles up to a bound and scatters over its upper half.
func backoff(failures int) time.Duration {
	d := maxBackoff
	if shift := failures - 1; shift < 16 {
		d = min(minBackoff<<shift, maxBackoff)
	}
	return d/2 + rand.N(d/2)
}

// sleep waits; its error is the cause of ctx's end.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
