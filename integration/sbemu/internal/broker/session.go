package broker

import (
	"container/heap"
	"container/list"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// session is a message session of a queue. It exists while it holds messages
// or state, or is locked.
type session struct {
	id        string
	fifo      fifo
	available int // items that can be delivered
	deferred  map[int64]*Item
	locks     lockList
	state     []byte // nil: none
	stateAt   time.Time

	owner       *Receiver // nil: not locked
	lockedUntil time.Time
	lockIndex   int
	ready       *list.Element // in the queue's list of ready sessions, or nil
}

// Waiter is a pending accept of the next available session.
type Waiter struct {
	queue    *Queue
	receiver *Receiver
	granted  func(Grant)
	timer    *time.Timer
	element  *list.Element // nil: no longer waiting
}

// Grant is the answer to an accept: a locked session, or an error.
type Grant struct {
	Receiver    *Receiver
	SessionID   string
	LockedUntil time.Time
	Err         *wire.Error
}

// session returns the session with an id. It creates the session if needed.
func (q *Queue) session(id string) *session {
	s := q.sessions[id]
	if s == nil {
		s = &session{id: id, lockIndex: -1}
		q.sessions[id] = s
	}

	return s
}

// forget removes a session that has no messages, no state and no lock.
func (q *Queue) forget(s *session) {
	if s.owner == nil && s.fifo.live == 0 && len(s.deferred) == 0 && s.state == nil {
		delete(q.sessions, s.id)
	}
}

// AcceptSession locks the session with an id for a receiver.
func (q *Queue) AcceptSession(id string, c Consumer, mode Mode) Grant {
	q.mu.Lock()
	defer q.mu.Unlock()

	if err := q.refuse(true); err != nil {
		return Grant{Err: err}
	}

	if err := refuseID("SessionId", id); err != nil {
		return Grant{Err: err}
	}

	now := time.Now()
	q.expireLocks(now)

	s := q.session(id)

	if s.owner != nil {
		return Grant{Err: wire.Errorf(CondSessionUnavailable,
			"The requested session '%s' cannot be accepted. It may be locked by another receiver.", id)}
	}

	r := &Receiver{queue: q, consumer: c, mode: mode}
	grant := q.lockSession(s, r, now)
	q.rearm(now)

	return grant
}

// AcceptNextSession locks the next available session for a receiver. If none is
// available, it waits up to timeout. granted is called once, possibly before
// AcceptNextSession returns. It is called with the queue's lock held, so it must not call
// the queue.
func (q *Queue) AcceptNextSession(c Consumer, mode Mode, timeout time.Duration, granted func(Grant)) *Waiter {
	q.mu.Lock()
	defer q.mu.Unlock()

	r := &Receiver{queue: q, consumer: c, mode: mode}

	if err := q.refuse(true); err != nil {
		granted(Grant{Err: err})

		return nil
	}

	now := time.Now()
	q.expireLocks(now)

	if s := q.nextReady(now); s != nil {
		grant := q.lockSession(s, r, now)
		q.rearm(now)
		granted(grant)

		return nil
	}

	w := &Waiter{queue: q, receiver: r, granted: granted}
	w.element = q.waiters.PushBack(w)
	w.timer = time.AfterFunc(timeout, func() {
		w.end(wire.Errorf(CondTimeout, "The operation did not complete within the allotted timeout of %s. "+
			"The time allotted to this operation may have been a portion of a longer timeout.", timeout))
	})

	return w
}

// Cancel ends the wait. After Cancel, granted is not called.
func (w *Waiter) Cancel() { w.end(nil) }

func (w *Waiter) end(err *wire.Error) {
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()

	if w.element == nil {
		return
	}

	w.remove()

	if err != nil {
		w.granted(Grant{Err: err})
	}
}

func (w *Waiter) remove() {
	w.timer.Stop()
	w.queue.waiters.Remove(w.element)
	w.element = nil
}

// nextReady returns the session that has been ready longest, or nil.
func (q *Queue) nextReady(now time.Time) *session {
	for q.ready.Len() > 0 {
		s, _ := q.ready.Front().Value.(*session)
		if q.next(s, now) != nil {
			return s
		}
	}

	return nil
}

// offer gives a session with available messages to its owner, to the oldest waiter, or to
// the list of ready sessions.
func (q *Queue) offer(s *session, now time.Time) {
	switch {
	case s.owner != nil:
		q.feed(s, now)
	case s.available == 0 || s.ready != nil:
	case q.waiters.Len() > 0:
		w, _ := q.waiters.Front().Value.(*Waiter)
		w.remove()
		w.granted(q.lockSession(s, w.receiver, now))
	default:
		s.ready = q.ready.PushBack(s)
	}
}

// unready removes a session from the list of ready sessions.
func (q *Queue) unready(s *session) {
	if s.ready != nil {
		q.ready.Remove(s.ready)
		s.ready = nil
	}
}

func (q *Queue) lockSession(s *session, r *Receiver, now time.Time) Grant {
	q.unready(s)
	s.owner = r
	s.lockedUntil = now.Add(q.cfg.LockDuration)
	r.session = s
	heap.Push(&q.held, s)

	return Grant{Receiver: r, SessionID: s.id, LockedUntil: s.lockedUntil}
}

// releaseSession releases a session. Its messages become available again, and their
// delivery counts do not change (Azure/azure-sdk-for-js#15116).
func (q *Queue) releaseSession(s *session, now time.Time) {
	heap.Remove(&q.held, s.lockIndex)
	s.lockIndex = -1
	s.owner.session = nil
	s.owner = nil

	for it := s.locks.first; it != nil; it = s.locks.first {
		q.unlock(it)
		q.reopen(it, now)
	}

	q.offer(s, now)
	q.forget(s)
}

// loseSession takes a session from its owner because its lock expired. Delivered messages
// count as delivered, and the link is detached.
func (q *Queue) loseSession(s *session, now time.Time) {
	owner := s.owner

	for it := s.locks.first; it != nil; it = s.locks.first {
		q.failed(it, now)
	}

	q.releaseSession(s, now)
	owner.closed = true
	owner.consumer.Detach(SessionLockLost())
}

// LoseSession ends the lock of a session as if it had expired now. It reports
// whether the session was locked.
func (q *Queue) LoseSession(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()

	s := q.sessions[id]
	if s == nil || s.owner == nil {
		return false
	}

	now := time.Now()
	q.loseSession(s, now)
	q.rearm(now)

	return true
}

// Holds reports whether the receiver holds the lock of a session.
func (r *Receiver) Holds(id string) bool {
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()

	r.queue.expireLocks(time.Now())

	return r.session != nil && r.session.id == id
}

// RenewSession extends a receiver's session lock.
func (r *Receiver) RenewSession(id string) (time.Time, *wire.Error) {
	q := r.queue

	q.mu.Lock()
	defer q.mu.Unlock()

	now := time.Now()
	q.expireLocks(now)

	s := r.session
	if s == nil || s.id != id {
		return time.Time{}, SessionLockLost()
	}

	s.lockedUntil = now.Add(q.cfg.LockDuration)
	heap.Fix(&q.held, s.lockIndex)

	for it := s.locks.first; it != nil; it = it.next {
		it.lockedUntil = s.lockedUntil
	}

	return s.lockedUntil, nil
}

// SessionState returns the state of a receiver's session, nil: none.
func (r *Receiver) SessionState(id string) ([]byte, *wire.Error) {
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()

	r.queue.expireLocks(time.Now())

	if r.session == nil || r.session.id != id {
		return nil, SessionLockLost()
	}

	return r.session.state, nil
}

// SetSessionState sets the state of a receiver's session, nil: none.
func (r *Receiver) SetSessionState(id string, state []byte) *wire.Error {
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()

	now := time.Now()
	r.queue.expireLocks(now)

	if r.session == nil || r.session.id != id {
		return SessionLockLost()
	}

	r.session.state = state
	r.session.stateAt = now

	return nil
}
