package drain

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/pkg/poll"
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
	// waiting are the slots that wait for a ticket, the longest first, each with a channel.
	waiting *list.List
	// timed says that a timer admits slots when notBefore has passed.
	timed bool
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
	return &acceptLimiter{slots: slots, limit: min(idleAccepts, slots), pending: list.New(), waiting: list.New()}
}

// enter waits until the slot may accept. The caller returns the ticket by one of granted,
// none, stopped and failed.
func (l *acceptLimiter) enter(ctx context.Context) (ticket, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	granted := make(chan ticket, 1)
	l.mu.Lock()
	place := l.waiting.PushBack(granted)
	l.admit()
	l.mu.Unlock()
	select {
	case t := <-granted:
		return t, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case t := <-granted:
		l.pending.Remove(t)
		l.admit()
	default:
		l.waiting.Remove(place)
	}
	return nil, context.Cause(ctx)
}

// admit gives tickets to the slots that may accept, and to no others: waking every slot of a
// pod for each answer costs more than the accepts. The caller holds the mutex.
func (l *acceptLimiter) admit() {
	for l.waiting.Len() > 0 && l.pending.Len() < l.limit {
		now := time.Now()
		if wait := l.notBefore.Sub(now); wait > 0 {
			l.admitAfter(wait)
			return
		}
		if granted, ok := l.waiting.Remove(l.waiting.Front()).(chan ticket); ok {
			granted <- l.pending.PushBack(now)
		}
	}
}

// admitAfter calls admit after a wait, unless a timer does so already. The caller holds the
// mutex.
func (l *acceptLimiter) admitAfter(wait time.Duration) {
	if l.timed {
		return
	}
	l.timed = true
	time.AfterFunc(wait, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.timed = false
		l.admit()
	})
}

// granted says that an accept got a session. The caller calls left when the session ends.
func (l *acceptLimiter) granted(t ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending.Remove(t)
	l.active++
	l.failures = 0
	l.limit = min(l.limit+1, l.slots)
	l.admit()
}

// none says that there was no session. The broker waits for one before it answers. A broker
// that answers at once would be asked thousands of times in a second, so such an answer counts
// as a failure.
func (l *acceptLimiter) none(t ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if began, ok := t.Value.(time.Time); ok && time.Since(began) < inVain {
		l.fail(t, 0)
		return
	}
	l.pending.Remove(t)
	l.failures = 0
	l.limit = max(l.limit/2, min(idleAccepts, l.slots))
	l.admit()
}

// stopped says that an accept was cancelled.
func (l *acceptLimiter) stopped(t ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending.Remove(t)
	l.admit()
}

// failed says that an accept failed. No slot may accept until a backoff, of at least
// atLeast, has passed.
func (l *acceptLimiter) failed(t ticket, atLeast time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail(t, atLeast)
}

// fail is failed for a caller that holds the mutex.
func (l *acceptLimiter) fail(t ticket, atLeast time.Duration) {
	l.pending.Remove(t)
	l.limit = max(l.limit/2, 1)
	now := time.Now()
	if now.Before(l.notBefore) {
		// Accepts that fail at the same time probably fail for one reason, so they count as
		// one failure. One of them can demand a longer pause.
		if until := now.Add(atLeast); until.After(l.notBefore) {
			l.notBefore = until
		}
	} else {
		l.failures++
		l.notBefore = now.Add(max(poll.After(firstAcceptPause, maxAcceptPause, l.failures), atLeast))
	}
	l.admit()
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
