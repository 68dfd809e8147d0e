package drain

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/pkg/backoff"
)

// acceptLimiter decides how many slots may wait for a session at the broker at once. Where
// there is work, all may. Where there is none, a few wait on behalf of all: an
// entity takes 5,000 waiting receivers, summed over all pods. Each grant lets in
// two more, so that a few sessions find a few slots at once.
type acceptLimiter struct {
	mu    sync.Mutex
	slots int
	// limit bounds the accepts that wait.
	limit int
	// pending are the times at which they began, the oldest first.
	pending *list.List
	// active are the sessions held, and leaving those of them that have been told to
	// make room.
	active, leaving int
	failures        int
	notBefore       time.Time
	// changed is closed and replaced at each change that lets someone in.
	changed chan struct{}
}

// ticket is the leave to accept once.
type ticket *list.Element

// idleAccepts is how many accepts wait where there is no work: two, so that one
// connection that hangs does not stop a pod.
const idleAccepts = 2

// inVain is how long an accept waits where no session is free, at the least: longer
// than the round trips that it takes to get one.
const inVain = 250 * time.Millisecond

// Bounds of the pause after failed accepts.
const (
	firstAcceptPause = 100 * time.Millisecond
	maxAcceptPause   = 30 * time.Second
)

func newAcceptLimiter(slots int) *acceptLimiter {
	return &acceptLimiter{slots: slots, limit: min(idleAccepts, slots), pending: list.New(), changed: make(chan struct{})}
}

// enter waits for leave to accept. The ticket goes to one of granted, none, stopped
// and failed.
func (l *acceptLimiter) enter(ctx context.Context) (ticket, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		t, wait, changed := l.try()
		if t != nil {
			return t, nil
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
func (l *acceptLimiter) try() (ticket, time.Duration, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	wait := l.notBefore.Sub(now)
	if wait <= 0 && l.pending.Len() < l.limit {
		return l.pending.PushBack(now), 0, nil
	}
	return nil, wait, l.changed
}

func (l *acceptLimiter) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// granted says that an accept got a session. It is followed by one left.
func (l *acceptLimiter) granted(t ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending.Remove(t)
	l.active++
	l.failures = 0
	l.limit = min(l.limit+1, l.slots)
	l.wake()
}

// none says that there was no session.
func (l *acceptLimiter) none(t ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending.Remove(t)
	l.failures = 0
	l.limit = max(l.limit/2, min(idleAccepts, l.slots))
	l.wake()
}

// stopped says that an accept was cancelled.
func (l *acceptLimiter) stopped(t ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending.Remove(t)
	l.wake()
}

// failed says that an accept failed, and lets nobody in for a while, at least for
// atLeast.
func (l *acceptLimiter) failed(t ticket, atLeast time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending.Remove(t)
	l.limit = max(l.limit/2, 1)
	now := time.Now()
	if now.Before(l.notBefore) {
		// One of several that failed at the same time, of the same cause.
		return
	}
	l.failures++
	l.notBefore = now.Add(max(backoff.After(firstAcceptPause, maxAcceptPause, l.failures), atLeast))
	l.wake()
}

// left says that a session was given up, and whether it had made room.
func (l *acceptLimiter) left(madeRoom bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active--
	if madeRoom {
		l.leaving--
	}
}

// makeRoom tells an idle session to leave, so that there are slots for the sessions
// that wait. Where many short sessions do, half of the slots is what accepting them
// takes: as long as draining one does. Where an accept waits in vain, no session
// does, and a few free slots are enough.
func (l *acceptLimiter) makeRoom(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	reserve := l.slots / 2
	if oldest := l.pending.Front(); oldest != nil {
		if since, ok := oldest.Value.(time.Time); ok && now.Sub(since) >= inVain {
			reserve = l.slots / 8
		}
	}
	if l.slots-l.active+l.leaving >= max(reserve, 1) {
		return false
	}
	l.leaving++
	return true
}
