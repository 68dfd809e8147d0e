// Package polltest runs loops, for tests.
package polltest

import (
	"context"
	"sync"
	"testing"
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
