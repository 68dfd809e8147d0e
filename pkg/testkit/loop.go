package testkit

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Start runs a loop until the test calls stop or ends. stop waits for the loop, and may be called
// again. The test fails if the loop returns an error.
func Start(tb testing.TB, loop func(context.Context) error) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	ended := make(chan error, 1)
	go func() { ended <- loop(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("the loop ended with: %v", err)
		}
	})
	tb.Cleanup(stop)
	return stop
}

// Pass lets virtual time pass in a bubble of testing/synctest, and waits until all other goroutines
// are blocked.
func Pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
}
