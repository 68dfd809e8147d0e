package drain

import (
	"context"
	"sync"
	"time"
)

// gate decides how many slots may wait for a session at the broker at once. Where
// there is work, all may. Where there is none, a few wait on behalf of all: an
// entity takes 5,000 waiting receivers, summed over all pods. Each grant lets in
// two more, so that a few sessions find a few slots at once.
type gate struct {
	mu    sync.Mutex
	slots int
	// limit bounds pending, which are the accepts that wait; active are the sessions
	// held, and leaving those of them that have been told to make room.
	limit, pending, active, leaving int
	failures                        int
	notBefore                       time.Time
	// changed is closed and replaced at each change that lets someone in.
	changed chan struct{}
}

// idleAccepts is how many accepts wait where there is no work: two, so that one
// connection that hangs does not stop a pod.
const idleAccepts = 2

// Bounds of the pause after failed accepts.
const (
	firstAcceptPause = 100 * time.Millisecond
	maxAcceptPause   = 30 * time.Second
)

func newGate(slots int) *gate {
	return &gate{slots: slots, limit: min(idleAccepts, slots), changed: make(chan struct{})}
}

// enter waits for leave to accept. Each enter that returns nil is followed by one
// of granted, none and failed.
func (g *gate) enter(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		wait, changed := g.try()
		if changed == nil {
			return nil
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-changed:
		case <-timer:
		case <-ctx.Done():
		}
	}
}

// try enters, or gives what to wait for.
func (g *gate) try() (time.Duration, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	wait := time.Until(g.notBefore)
	if wait <= 0 && g.pending < g.limit {
		g.pending++
		return 0, nil
	}
	return wait, g.changed
}

func (g *gate) wake() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// granted says that an accept got a session. It is followed by one left.
func (g *gate) granted() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending--
	g.active++
	g.failures = 0
	g.limit = min(g.limit+1, g.slots)
	g.wake()
}

// none says that there was no session.
func (g *gate) none() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending--
	g.failures = 0
	g.limit = max(g.limit/2, min(idleAccepts, g.slots))
	g.wake()
}

// stopped says that an accept was cancelled.
func (g *gate) stopped() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending--
	g.wake()
}

// failed says that an accept failed, and lets nobody in for a while, at least for
// atLeast.
func (g *gate) failed(atLeast time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending--
	g.limit = max(g.limit/2, 1)
	now := time.Now()
	if now.Before(g.notBefore) {
		// One of several that failed at the same time, of the same cause.
		return
	}
	g.failures++
	g.notBefore = now.Add(max(backoff(firstAcceptPause, maxAcceptPause, g.failures), atLeast))
	g.wake()
}

// left says that a session was given up, and whether it had made room.
func (g *gate) left(madeRoom bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.active--
	if madeRoom {
		g.leaving--
	}
}

// makeRoom tells an idle session to leave, so that half of the slots are there for
// the sessions that wait. Where many short sessions do, half of the slots is what
// accepting them takes: as long as draining one does.
func (g *gate) makeRoom() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	free := g.slots - g.active
	if free+g.leaving >= max(g.slots/2, 1) {
		return false
	}
	g.leaving++
	return true
}
