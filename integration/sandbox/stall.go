package sandbox

import (
	"context"
	"fmt"
	"time"
)

// stalling returns a context that ends when progress has not been called for limit, and
// progress. So a step may take as long as its number of events requires.
func stalling(ctx context.Context, limit time.Duration) (stalled context.Context, progress func(), end func()) {
	stalled, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() { cancel(fmt.Errorf("no progress for %s", limit)) })
	return stalled, func() { timer.Reset(limit) }, func() {
		timer.Stop()
		cancel(nil)
	}
}
