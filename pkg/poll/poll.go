package poll

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// firstWithin is the part of the interval within which the first call of [Spread]
	// begins: an autoscaler waits for the numbers of a process that has just started.
	firstWithin = 4
	// spread is the part by which a wait of [Spread] is longer or shorter.
	spread = 4
)

// Every calls do at once, and then each interval until ctx ends. If a call takes longer
// than an interval, the calls that it has delayed are made once. The interval is positive.
func Every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Spread calls do until ctx ends, and waits between two calls as long as do returned, give
// or take a quarter. The first call begins at random within the first quarter of the
// interval. Processes that start together therefore do not ask a server together. The
// interval and the waits are positive.
func Spread(ctx context.Context, interval time.Duration, do func() (wait time.Duration)) {
	timer := time.NewTimer(rand.N(interval/firstWithin + 1))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		wait := do()
		if ctx.Err() != nil {
			return
		}
		timer.Reset(wait - wait/spread + rand.N(2*(wait/spread)+1))
	}
}
