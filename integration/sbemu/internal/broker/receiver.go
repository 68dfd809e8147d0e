package broker

import (
	"slices"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// Mode selects what happens to a message when it is delivered.
type Mode int

// The two modes.
const (
	PeekLock Mode = iota
	ReceiveAndDelete
)

// Consumer is the link to which a receiver's messages go. Its methods are called with the
// queue's lock held, so they must neither block nor call the broker.
type Consumer interface {
	// Deliver takes over a message, or returns false if it has no room. After false,
	// [Receiver.Resume] must be called when there is room. d is valid only during the
	// call.
	Deliver(d *Delivery) bool

	// Detach reports that the broker ended the link.
	Detach(reason *wire.Error)
}

// Delivery is a message on its way to a consumer.
type Delivery struct {
	Item    *Item
	Message *message.Message
	Stamp   message.Stamp
	Settled bool // already deleted, so there is nothing to settle
}

// Receiver receives from a queue, or from one session of it.
type Receiver struct {
	queue    *Queue
	consumer Consumer
	mode     Mode
	session  *session // the locked session, nil: none, or lost
	stalled  bool     // the consumer had no room
	closed   bool
}

// Queue returns the queue from which the receiver receives.
func (r *Receiver) Queue() *Queue { return r.queue }

// Receive attaches a receiver to a queue without sessions.
func (q *Queue) Receive(c Consumer, mode Mode) (*Receiver, *wire.Error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if err := q.refuse(false); err != nil {
		return nil, err
	}

	// Until Resume is called, the link is not attached and must not get messages.
	r := &Receiver{queue: q, consumer: c, mode: mode, stalled: true}
	q.receivers = append(q.receivers, r)

	return r, nil
}

// refuse returns why a receiver cannot be attached, or nil.
func (q *Queue) refuse(session bool) *wire.Error {
	switch {
	case q.closed != nil:
		return q.closed
	case q.cfg.Disabled:
		return wire.Errorf(CondEntityDisabled, "Messaging entity '%s' is currently disabled.", q.path)
	case q.forward != nil:
		return wire.Errorf(CondNotAllowed, "Cannot create a message receiver on an entity with auto-forwarding enabled.")
	case session && q.sessions == nil:
		return wire.Errorf(CondNotAllowed, "A sessionful message receiver cannot be created on an entity that does not require sessions. "+
			"Ensure RequiresSession is set to true when creating a Queue or Subscription to enable sessionful behavior.")
	case !session && q.sessions != nil:
		return wire.Errorf(CondNotAllowed, "It is not possible for an entity that requires sessions to create a non-sessionful message receiver.")
	default:
		return nil
	}
}

// Resume delivers available messages again after the consumer has room.
func (r *Receiver) Resume() {
	q := r.queue

	q.mu.Lock()
	defer q.mu.Unlock()

	now := time.Now()
	q.expireLocks(now)

	if r.closed {
		return
	}

	r.stalled = false

	if r.session != nil {
		q.feed(r.session, now)
	} else if q.sessions == nil {
		q.pump(now)
	}

	q.rearm(now)
}

// Close ends the receiver. It releases the receiver's session with its messages. Messages
// that are locked without a session stay locked until their lock expires or they are
// settled by their lock token.
func (r *Receiver) Close() {
	q := r.queue

	q.mu.Lock()
	defer q.mu.Unlock()

	now := time.Now()
	q.expireLocks(now)

	if r.closed {
		return
	}

	r.closed = true

	if r.session != nil {
		q.releaseSession(r.session, now)
		q.rearm(now)
	} else {
		q.receivers = slices.DeleteFunc(q.receivers, func(o *Receiver) bool { return o == r })
	}
}

// next returns the next available item of a session, or of the queue.
func (q *Queue) next(s *session, now time.Time) *Item {
	f := &q.fifo
	if s != nil {
		f = &s.fifo
	}

	for {
		it := f.nextAvailable()
		if it == nil || !q.expired(it, now) {
			return it
		}
	}
}

// feed delivers the available items of a session to its owner.
func (q *Queue) feed(s *session, now time.Time) {
	r := s.owner

	for r != nil && !r.stalled && s.available > 0 {
		it := q.next(s, now)
		if it == nil {
			return
		}

		q.deliver(r, it, s.lockedUntil)
	}
}

// pump delivers available items to the receivers of a queue without sessions, in turn.
func (q *Queue) pump(now time.Time) {
	if q.sessions != nil {
		return
	}

	for {
		r := q.nextReceiver()
		if r == nil {
			return
		}

		it := q.next(nil, now)
		if it == nil {
			return
		}

		if q.deliver(r, it, now.Add(q.cfg.LockDuration)) {
			q.turn++
		}
	}
}

func (q *Queue) nextReceiver() *Receiver {
	for i := range q.receivers {
		at := (q.turn + i) % len(q.receivers)
		if r := q.receivers[at]; !r.stalled {
			q.turn = at

			return r
		}
	}

	return nil
}

// deliver delivers an item to a receiver. It returns false if the consumer has no room.
func (q *Queue) deliver(r *Receiver, it *Item, lockedUntil time.Time) bool {
	if r.mode == PeekLock {
		it.token = q.newToken()
		it.lockedUntil = lockedUntil
	}

	q.scratch = Delivery{Item: it, Message: it.msg, Stamp: it.stamp(), Settled: r.mode == ReceiveAndDelete}

	if !r.consumer.Deliver(&q.scratch) {
		it.token = wire.UUID{}
		r.stalled = true

		return false
	}

	if it.session != nil {
		it.session.available--
	}

	if r.mode == ReceiveAndDelete {
		q.drop(it)
	} else {
		q.lock(it)
	}

	return true
}

// lock records the lock that an item carries.
func (q *Queue) lock(it *Item) {
	q.tokens[it.token] = it

	if !it.deferred {
		q.counts.Locked++
	}

	if it.session != nil {
		it.session.locks.insert(it)
	} else {
		q.locks.insert(it)
	}
}

func (q *Queue) unlock(it *Item) {
	delete(q.tokens, it.token)
	it.token = wire.UUID{}

	if !it.deferred {
		q.counts.Locked--
	}

	if it.session != nil {
		it.session.locks.remove(it)
	} else {
		q.locks.remove(it)
	}
}

// reopen makes an unlocked item available again at its old place, unless its time to live
// ended while it was locked. A deferred item stays deferred.
func (q *Queue) reopen(it *Item, now time.Time) {
	switch {
	case it.deferred:
		return
	case it.session != nil:
		it.session.available++
		it.session.fifo.reopen(it)
	default:
		q.fifo.reopen(it)
	}

	q.expired(it, now)
}

// detachAll ends all receivers and waiters.
func (q *Queue) detachAll(reason *wire.Error) {
	now := time.Now()

	for q.waiters.Len() > 0 {
		w, _ := q.waiters.Front().Value.(*Waiter)
		w.remove()
		w.granted(Grant{Err: reason})
	}

	for len(q.held) > 0 {
		r := q.held[0].owner
		r.closed = true
		q.releaseSession(q.held[0], now)
		r.consumer.Detach(reason)
	}

	for _, r := range q.receivers {
		r.closed = true
		r.consumer.Detach(reason)
	}

	q.receivers = nil
}

// Detach ends all receivers of the queue with a reason.
func (q *Queue) Detach(reason *wire.Error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	q.detachAll(reason)
	q.rearm(time.Now())
}
