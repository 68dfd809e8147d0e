package obs

import (
	"sync"
	"time"
)

// Expiring is a measured value that is not reported when it is old. It is safe for
// concurrent use.
type Expiring[T any] struct {
	// After is how long a value is fresh.
	After time.Duration

	mu    sync.Mutex
	value T
	at    time.Time
}

// Set records the value that was measured at a time.
func (e *Expiring[T]) Set(value T, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.value, e.at = value, at
}

// Get returns the last value, when it was measured, and whether it is fresh. The time is
// zero before the first value.
func (e *Expiring[T]) Get() (value T, at time.Time, fresh bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.value, e.at, !e.at.IsZero() && time.Since(e.at) <= e.After
}
