package health

import (
	"sync"
	"time"
)

// recentHalf is half of the time that [Recent] covers.
const recentHalf = 30 * time.Second

// Recent says how long something took in the last half to one minute. Make it with [NewRecent];
// it is safe for concurrent use.
type Recent struct {
	limit time.Duration

	mu sync.Mutex
	// halves are the present half minute, which began at begun, and the one before it.
	begun  time.Time
	halves [2]Durations
}

// Durations summarise what [Recent] was given.
type Durations struct {
	// Count is their number, and Above how many of them exceed the limit.
	Count, Above int64
	Longest      time.Duration
}

// NewRecent makes a Recent that counts the durations above limit.
func NewRecent(limit time.Duration) *Recent { return &Recent{limit: limit, begun: time.Now()} }

// Add records that something has taken d.
func (r *Recent) Add(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	h := &r.halves[0]
	h.Count++
	if d > r.limit {
		h.Above++
	}
	h.Longest = max(h.Longest, d)
}

// Durations summarises the last half to one minute.
func (r *Recent) Durations() Durations {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	a, b := r.halves[0], r.halves[1]
	return Durations{a.Count + b.Count, a.Above + b.Above, max(a.Longest, b.Longest)}
}

// turn begins a new half minute if the present one has ended.
func (r *Recent) turn() {
	switch past := time.Since(r.begun); {
	case past < recentHalf:
	case past < 2*recentHalf:
		r.halves = [2]Durations{{}, r.halves[0]}
		r.begun = r.begun.Add(recentHalf)
	default:
		r.halves = [2]Durations{}
		r.begun = time.Now()
	}
}
