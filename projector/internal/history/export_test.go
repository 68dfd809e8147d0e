package history

import (
	"context"
	"time"
)

// SetClock replaces the clock.
func (w *Workers) SetClock(now func() time.Time, wait func(ctx context.Context, d time.Duration) error) {
	w.now, w.wait = now, wait
}

// SetLimit replaces the rate limit; nil for none.
func (w *Workers) SetLimit(begin func(ctx context.Context, events int) (end func(), err error)) {
	if begin != nil {
		w.begin = begin
	}
}

// Server is the MongoDB stand-in of this package's tests.
var Server = &server

// Beat is what Run repeats.
func (s *Scheduler) Beat(ctx context.Context) error { return s.beat(ctx) }

// Verifies is verifies.
var Verifies = verifies

// SetLong sets from how many events on a history is long.
func (w *Workers) SetLong(events int) { w.limits.long = events }
