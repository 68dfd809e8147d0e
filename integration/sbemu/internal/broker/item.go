package broker

import (
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// Item is a message in a queue. Its queue's lock guards it.
type Item struct {
	msg           *message.Message
	seq           int64
	enqueuedSeq   int64 // the topic's number, 0: not sent to a topic
	enqueuedAt    time.Time
	expiresAt     time.Time // zero: never
	lockedUntil   time.Time
	token         wire.UUID // of the current lock, zero: not locked
	deliveryCount uint32
	deferred      bool
	scheduled     bool
	gone          bool // settled, moved or expired

	session  *session // nil in a queue without sessions
	position uint64   // in its fifo
	dueIndex int      // in a deadline heap, -1: in none

	prev, next *Item // in a lock list
}

func (it *Item) locked() bool { return it.token != wire.UUID{} }

// available reports whether the item can be delivered to a receiver.
func (it *Item) available() bool {
	return !it.gone && !it.deferred && !it.scheduled && !it.locked()
}

// outlived reports whether the item's time to live has ended.
func (it *Item) outlived(now time.Time) bool {
	return !it.expiresAt.IsZero() && !it.expiresAt.After(now)
}

func (it *Item) stamp() message.Stamp {
	s := message.Stamp{
		DeliveryCount:    it.deliveryCount,
		SequenceNumber:   it.seq,
		EnqueuedSequence: it.enqueuedSeq,
		EnqueuedAt:       it.enqueuedAt,
	}

	if it.locked() {
		s.LockedUntil = it.lockedUntil
		s.LockToken = it.token
	}

	switch {
	case it.deferred:
		s.State = message.Deferred
	case it.scheduled:
		s.State = message.Scheduled
	}

	return s
}

// lockList holds locked items by the time at which their lock expires.
type lockList struct {
	first, last *Item
}

// insert inserts an item in order of lock expiry. Locks of one queue have the same
// duration, so this place is usually the end. Only a change of the lock duration makes it
// differ.
func (l *lockList) insert(it *Item) {
	after := l.last
	for after != nil && it.lockedUntil.Before(after.lockedUntil) {
		after = after.prev
	}

	it.prev = after

	if after == nil {
		it.next, l.first = l.first, it
	} else {
		it.next, after.next = after.next, it
	}

	if it.next == nil {
		l.last = it
	} else {
		it.next.prev = it
	}
}

func (l *lockList) remove(it *Item) {
	if it.prev == nil {
		l.first = it.next
	} else {
		it.prev.next = it.next
	}

	if it.next == nil {
		l.last = it.prev
	} else {
		it.next.prev = it.prev
	}

	it.prev, it.next = nil, nil
}
