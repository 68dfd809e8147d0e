package breaker

import "sync"

// Limit says how many of the recent events may be set aside.
type Limit struct {
	// Window is how many of the latest events count as recent, at least 1.
	Window int
	// Share is the largest share of the recent events that may be set aside,
	// 0 to 1.
	Share float64
	// Minimum is how many events may be set aside in each window, whatever the share. It is
	// for the time in which there are too few events for a share.
	Minimum int
}

// Breaker counts events and allows a bounded share of them to be set aside. Make it
// with [New]. It is safe for concurrent use. It holds 8 bytes for each event that
// was set aside within the window.
type Breaker struct {
	limit Limit

	mu    sync.Mutex
	seen  int64   // all events, good and set aside
	aside []int64 // value of seen at each event set aside, oldest first
}

// New makes a breaker that has not counted any event.
func New(limit Limit) *Breaker {
	limit.Window = max(1, limit.Window)
	return &Breaker{limit: limit}
}

// Good counts n events that were processed.
func (b *Breaker) Good(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen += int64(n)
}

// Allow reports whether one more event may be set aside. If so, Allow counts it. If not,
// the caller must not set the event aside. waiting is how many other events wait because
// they were not allowed: as long as they wait, they count as recent ones that are set aside.
func (b *Breaker) Allow(waiting int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(b.seen + 1)
	recent := min(b.seen+1, int64(b.limit.Window)) + int64(waiting)
	if len(b.aside)+waiting >= max(b.limit.Minimum, int(b.limit.Share*float64(recent))) {
		return false
	}
	b.seen++
	b.aside = append(b.aside, b.seen)
	return true
}

// Recent returns how many events the window holds, and how many of them were set aside.
func (b *Breaker) Recent() (events, aside int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(b.seen)
	return int(min(b.seen, int64(b.limit.Window))), len(b.aside)
}

// forget drops the events that have left the window, whose last event has the number last.
func (b *Breaker) forget(last int64) {
	n := 0
	for n < len(b.aside) && b.aside[n] <= last-int64(b.limit.Window) {
		n++
	}
	b.aside = append(b.aside[:0], b.aside[n:]...)
}
