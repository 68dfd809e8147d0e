package drain

import (
	"maps"
	"sync"
	"time"
)

const (
	// stuckLeast is how long a session that is stuck is at least kept, because each time that
	// it is accepted costs an attempt.
	stuckLeast = 250 * time.Millisecond
	// stuckIdle is how long a session of several aggregates is at least stuck: events of the
	// healthy ones come with pauses.
	stuckIdle = time.Second
	// quickReturn is the time within which a session that has left is accepted again if no
	// other session waits.
	quickReturn = time.Second
	// stayTime is how long no session leaves after a quick return.
	stayTime = 5 * time.Second
)

// turns decides whether stuck sessions leave for others. All sessions of a process share one.
// The broker does not say whether a session waits. If one that has left is accepted again
// quickly, no other one does.
type turns struct {
	failures *failures

	mu sync.Mutex
	// left is when each session left that was not accepted since.
	left map[string]time.Time
	// swept is when outdated entries were last removed.
	swept time.Time
	// until is the time until which no session leaves.
	until time.Time
}

func newTurns(f *failures) *turns { return &turns{failures: f, left: make(map[string]time.Time)} }

// allowed reports whether a stuck session may leave. It may not if the memory of failures is
// full: then only its session knows for how long an aggregate has failed.
func (t *turns) allowed(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !now.Before(t.until) && !t.failures.full()
}

// leaves notes that a stuck session has left.
func (t *turns) leaves(session string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.swept) >= quickReturn {
		t.swept = now
		maps.DeleteFunc(t.left, func(_ string, at time.Time) bool { return now.Sub(at) >= quickReturn })
	}
	t.left[session] = now
}

// accepted notes that a session was accepted.
func (t *turns) accepted(session string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, ok := t.left[session]; ok && now.Sub(at) < quickReturn {
		t.until = now.Add(stayTime)
	}
	delete(t.left, session)
}
