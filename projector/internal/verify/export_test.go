package verify

import (
	"context"
	"time"
)

// SetClock replaces the clock.
func (w *Worker) SetClock(now func() time.Time, wait func(ctx context.Context, d time.Duration) error) {
	w.now, w.wait = now, wait
}
