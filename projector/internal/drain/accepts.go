package drain

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/pkg/backoff"
)

// acceptLimiter bounds how many slots wait for a session at the broker at once. If there
// is work, all slots may wait. If there is none, only a few do, because an entity of
// Service Bus allows 5,000 waiting receivers, summed over all pods. Each accepted session
// raises the bound, so that free slots find further sessions soon.
type acceptLimiter struct {
	mu    sync.Mutex
	slots int
	// limit bounds the accepts that wait.
	limit int
	// pending are the times at which these accepts began, the oldest first.
	pending *list.List
	// active counts the sessions held; leaving counts those of them that [makeRoom] ends.
	active, leaving int
	failures        int
	notBefore       time.Time
	// changed is closed and replaced when another slot may be able to accept.
	changed chan struct{}
}

// ticket is the permission for one accept.
type ticket *list.Element

// idleAccepts is how many accepts wait if there is no work: two, so that one connection
// that hangs does not stop a pod.
const idleAccepts = 2

// inVain is the time after which an accept that waits shows that no session is free. It
// is longer than the round trips of an accept.
const inVain = 250 * time.Millisecond

// Bounds of the pause after failed accepts.
const (
	firstAcceptPause = 100 * time.Millisecond
	maxAcceptPause   = 30 * time.Second
)

func newAcceptLimiter(slots int) *acceptLimiter {
	return &acceptLimiter{slots: slots, limit: min(idleAccepts, slots), pending: list.New(), changed: make(chan struct{})}
}

// enter waits until the slot may accept. The caller returns the ticket by one of granted,
// none, stopped and failed.
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

// try returns a ticket, or the time and the channel to wait for.
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

// granted says that an accept got a session. The caller calls left when the session ends.
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

// failed says that an accept failed. No slot may accept until a backoff, of at least
// atLeast, has passed.
func (l *acceptLimiter) failed(t ticket, atLeast time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending.Remove(t)
	l.limit = max(l.limit/2, 1)
	now := time.Now()
	if now.Before(l.notBefore) {
		// Accepts that fail at the same time probably fail for one reason, so they count as
		// one failure. One of them can demand a longer pause.
		if until := now.Add(atLeast); until.After(l.notBefore) {
			l.notBefore = until
		}
		return
	}
	l.failures++
	l.notBefore = now.Add(max(backoff.After(firstAcceptPause, maxAcceptPause, l.failures), atLeast))
	l.wake()
}

// left says that a session has ended, and whether makeRoom ended it.
func (l *acceptLimiter) left(madeRoom bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active--
	if madeRoom {
		l.leaving--
	}
}

// makeRoom reports whether an idle session must end, so that slots are free for sessions
// that wait. If many short sessions wait, half of the slots must be free, because
// accepting a session takes as long as draining it. If an accept waits in vain, no session
// waits, and an eighth of the slots is enough.
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
