package poll

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// firstWithin divides the interval: the first call of [Spread] begins in its first
	// quarter, because an autoscaler waits for the numbers of a new process.
	firstWithin = 4
	// spread divides a wait of [Spread]: the wait varies by up to a quarter in both
	// directions.
	spread = 4
)

// Every calls do immediately, and then once in each interval until ctx ends. If a call
// takes longer than an interval, the delayed calls are made as one. The interval must be
// positive.
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

// Beside runs loop in a goroutine. stop ends the loop and waits until it has returned.
func Beside(ctx context.Context, loop func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		loop(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// Spread calls do until ctx ends. Between two calls it waits as long as do returned, plus
// or minus a quarter. The first call begins at a random time in the first quarter of the
// interval, so that processes that start together do not ask a server at the same time. The
// interval and the waits must be positive.
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
