package history

import (
	"context"
	"time"
)

// SetClock replaces the clock.
func (w *Verifier) SetClock(now func() time.Time, wait func(ctx context.Context, d time.Duration) error) {
	w.now, w.wait = now, wait
}

// Server is the MongoDB stand-in of this package's tests.
var Server = &server
