package broker

import "time"

// expired drops or dead-letters an item whose time to live has ended. It reports whether
// it did.
func (q *Queue) expired(it *Item, now time.Time) bool {
	if !it.outlived(now) {
		return false
	}

	if s := it.session; s != nil && it.available() {
		s.available--

		if s.available == 0 {
			q.unready(s)
		}
	}

	if q.cfg.DeadLetterExpired && q.deadLetter != nil {
		q.bury(it, deadLetterProperties("TTLExpiredException", "The message expired and was dead lettered."))
	} else {
		q.drop(it)
	}

	return true
}

// expireLocks ends all expired locks. Every operation that relies on a lock calls it
// first, because a lock ends by the clock, even if the alarm has not fired yet.
func (q *Queue) expireLocks(now time.Time) {
	for len(q.held) > 0 && !q.held[0].lockedUntil.After(now) {
		q.loseSession(q.held[0], now)
	}

	for it := q.locks.first; it != nil && !it.lockedUntil.After(now); it = q.locks.first {
		q.failed(it, now)
	}
}

// wake ends expired locks, drops expired messages and enqueues scheduled messages that
// are due.
func (q *Queue) wake() {
	now := time.Now()

	q.mu.Lock()

	if q.closed != nil {
		q.mu.Unlock()

		return
	}

	q.alarm.at = time.Time{}

	q.expireLocks(now)

	for it := q.expiry.due(now); it != nil; it = q.expiry.due(now) {
		// A locked message does not expire before its lock ends.
		if !it.locked() {
			q.expired(it, now)
		}
	}

	var due []*Item

	for it := q.schedule.due(now); it != nil; it = q.schedule.due(now) {
		q.counts.Scheduled--
		q.bytes -= int64(it.msg.Size)

		if q.onDue != nil {
			due = append(due, it)
		} else {
			q.accept(it, now)
		}
	}

	q.pump(now)
	q.rearm(now)
	q.mu.Unlock()

	if len(due) > 0 {
		q.onDue(due)
	}
}

// rearm sets the alarm to the next deadline.
func (q *Queue) rearm(now time.Time) {
	var lock, session time.Time

	if q.locks.first != nil {
		lock = q.locks.first.lockedUntil
	}

	if len(q.held) > 0 {
		session = q.held[0].lockedUntil
	}

	q.alarm.set(earliest(lock, session, q.schedule.first(), q.expiry.first()), now, q.wake)
}
