package obs

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// RepeatInterval is the least time between two lines of a [Repeats].
const RepeatInterval = 30 * time.Second

// Repeats limits the lines about an attempt that is repeated: in an outage, every goroutine
// of a process fails several times a second for one reason. It passes the first line, and
// then at most one per [RepeatInterval]. That line has the number of lines that were left
// out before it, in the field omitted. The zero value is ready. It is safe for concurrent
// use.
type Repeats struct {
	mu      sync.Mutex
	passed  bool
	last    time.Time
	omitted int
}

// Warn begins a line at the level warn. If the line is left out, the result is nil, whose
// methods do nothing.
func (r *Repeats) Warn(logger *zerolog.Logger) *zerolog.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.passed && now.Sub(r.last) < RepeatInterval {
		r.omitted++
		return nil
	}
	event := logger.Warn() //nolint:zerologlint // the caller sends it
	if r.omitted > 0 {
		event = event.Int("omitted", r.omitted)
	}
	r.passed, r.last, r.omitted = true, now, 0
	return event
}
