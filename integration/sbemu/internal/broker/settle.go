package broker

import (
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// Verdict is a receiver's decision about a message.
type Verdict int

// The verdicts.
const (
	Complete   Verdict = iota
	Abandon            // available again, the delivery is counted
	Release            // available again, the delivery is not counted
	Defer              // available by sequence number only
	DeadLetter         // moved to the dead-letter queue
)

// Outcome is a verdict and the properties to set on the message, including the reason and
// description of a dead letter.
type Outcome struct {
	Verdict    Verdict
	Properties wire.Map
}

// Settle settles a delivery of the receiver's link.
func (r *Receiver) Settle(it *Item, token wire.UUID, o Outcome) *wire.Error {
	q := r.queue

	q.mu.Lock()
	defer q.mu.Unlock()

	now := time.Now()
	q.expireLocks(now)

	if it.token != token || it.gone {
		if q.sessions != nil {
			return SessionLockLost()
		}

		return errMessageLockLost()
	}

	return q.settle(it, o, now)
}

// SettleToken settles a message by its lock token. In a queue with sessions, the receiver
// r must hold the message's session. In a queue without sessions, r may be nil.
func (q *Queue) SettleToken(r *Receiver, token wire.UUID, o Outcome) *wire.Error {
	q.mu.Lock()
	defer q.mu.Unlock()

	now := time.Now()
	q.expireLocks(now)

	it := q.tokens[token]

	switch {
	case it == nil && q.sessions != nil, it != nil && it.session != nil && (r == nil || it.session != r.session):
		return SessionLockLost()
	case it == nil:
		return errMessageLockLost()
	default:
		return q.settle(it, o, now)
	}
}

func (q *Queue) settle(it *Item, o Outcome, now time.Time) *wire.Error {
	if o.Verdict == DeadLetter && q.deadLetter == nil {
		return wire.Errorf(CondNotAllowed, "A message of a dead-letter queue cannot be dead-lettered.")
	}

	switch o.Verdict {
	case Complete:
		q.unlock(it)
		q.drop(it)
	case Release:
		q.unlock(it)
		q.reopen(it, now)
	case Abandon:
		q.modify(it, o.Properties)
		q.failed(it, now)
	case Defer:
		q.modify(it, o.Properties)
		q.unlock(it)
		q.setAside(it)
	case DeadLetter:
		q.unlock(it)
		q.bury(it, o.Properties)
	}

	if it.session != nil {
		q.offer(it.session, now)
	} else {
		q.pump(now)
	}

	q.rearm(now)

	return nil
}

// modify sets application properties of an item's message.
func (q *Queue) modify(it *Item, properties wire.Map) {
	before := it.msg.Size
	it.msg = it.msg.WithApplicationProperties(properties)
	q.bytes += int64(it.msg.Size - before)
}

// failed ends a delivery that did not succeed and counts it. If the maximum delivery
// count is reached, the message is dead-lettered. Deliveries from a dead-letter queue are
// not counted (the SDK's test of messageSettler).
func (q *Queue) failed(it *Item, now time.Time) {
	q.unlock(it)

	if q.deadLetter == nil {
		q.reopen(it, now)

		return
	}

	it.deliveryCount++

	if it.deliveryCount >= q.cfg.MaxDeliveryCount {
		q.bury(it, deadLetterProperties("MaxDeliveryCountExceeded",
			fmt.Sprintf("Message could not be consumed after %d delivery attempts.", it.deliveryCount)))

		return
	}

	q.reopen(it, now)
}

// setAside moves an unlocked item to the deferred items. A deferred item does not expire
// until it is received (documented: message deferral).
func (q *Queue) setAside(it *Item) {
	if it.deferred {
		return
	}

	q.expiry.remove(it)
	q.counts.Active--
	q.counts.Deferred++

	if it.session != nil {
		it.session.fifo.remove(it)

		if it.session.deferred == nil {
			it.session.deferred = make(map[int64]*Item)
		}

		it.session.deferred[it.seq] = it
	} else {
		q.fifo.remove(it)
	}

	it.deferred = true

	if q.deferred == nil {
		q.deferred = make(map[int64]*Item)
	}

	q.deferred[it.seq] = it
}

// RenewLocks extends the locks of messages and returns their new expiry times.
func (q *Queue) RenewLocks(tokens []wire.UUID) ([]time.Time, *wire.Error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if q.sessions != nil {
		return nil, wire.Errorf(CondNotAllowed,
			"The lock of a message in a session cannot be renewed; renew the lock of the session.")
	}

	now := time.Now()
	q.expireLocks(now)

	for _, t := range tokens {
		if q.tokens[t] == nil {
			return nil, errMessageLockLost()
		}
	}

	until := now.Add(q.cfg.LockDuration)
	out := make([]time.Time, len(tokens))

	for i, t := range tokens {
		it := q.tokens[t]
		q.locks.remove(it)
		it.lockedUntil = until
		q.locks.insert(it)
		out[i] = until
	}

	return out, nil
}
