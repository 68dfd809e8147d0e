package publish

import "github.com/penstock-cdc/penstock/pkg/event"

// entry is one event in flight, from Submit to its acknowledgement. Entries are
// reused.
type entry struct {
	item    Item
	size    int64
	lane    *lane
	next    *entry // behind it in its lane, or in the free list
	message event.Message
	encoded bool
}

// lane holds the events of one session key that are in flight. It exists only as
// long as there are some.
type lane struct {
	key        string
	head, tail *entry // queued
	sending    int    // taken by a worker and not settled: those queued wait for all of them
	next       *lane  // behind it in the ready queue, or in the free list
}

// lanes are the events in flight by session key. Its owner's mutex guards it.
type lanes struct {
	byKey               map[string]*lane
	readyHead, readyEnd *lane // lanes with events queued and none sending, oldest first
	freeEntries         *entry
	freeLanes           *lane
}

// entry gives an unused entry.
func (l *lanes) entry() *entry {
	e := l.freeEntries
	if e == nil {
		return new(entry)
	}
	l.freeEntries = e.next
	e.next = nil
	return e
}

// add queues an event behind all others of its session key.
func (l *lanes) add(key string, e *entry) {
	ln := l.byKey[key]
	if ln == nil {
		if ln = l.freeLanes; ln != nil {
			l.freeLanes = ln.next
			ln.next = nil
		} else {
			ln = new(lane)
		}
		ln.key = key
		l.byKey[key] = ln
	}
	e.lane = ln
	if ln.head != nil {
		ln.tail.next = e
		ln.tail = e
		return
	}
	ln.head, ln.tail = e, e
	if ln.sending == 0 {
		l.pushReady(ln)
	}
}

// take moves events from the longest ready lanes to a batch, within its bounds
// but at least one: those of one lane, or with mixed those of as many as fit.
func (l *lanes) take(batch []*entry, mixed bool, maxEvents int, maxBytes int64) []*entry {
	var bytes int64
	for l.readyHead != nil && len(batch) < maxEvents {
		ln := l.readyHead
		if len(batch) > 0 && bytes+ln.head.size > maxBytes {
			break
		}
		l.popReady()
		for e := ln.head; e != nil && len(batch) < maxEvents; e = ln.head {
			if len(batch) > 0 && bytes+e.size > maxBytes {
				break
			}
			ln.head, e.next = e.next, nil
			ln.sending++
			bytes += e.size
			batch = append(batch, e)
		}
		if ln.head == nil {
			ln.tail = nil
		}
		if !mixed {
			break
		}
	}
	return batch
}

// putBack returns taken events to the front of their lanes, in their order.
func (l *lanes) putBack(entries []*entry) {
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		ln := e.lane
		e.next = ln.head
		ln.head = e
		if ln.tail == nil {
			ln.tail = e
		}
		l.settle(ln)
	}
}

// remove drops taken events that are settled.
func (l *lanes) remove(entries []*entry) {
	for _, e := range entries {
		ln := e.lane
		*e = entry{next: l.freeEntries}
		l.freeEntries = e
		l.settle(ln)
	}
}

// settle counts one taken event of a lane less; with the last one the lane is
// ready again, or gone.
func (l *lanes) settle(ln *lane) {
	ln.sending--
	switch {
	case ln.sending > 0:
	case ln.head != nil:
		l.pushReady(ln)
	default:
		delete(l.byKey, ln.key)
		*ln = lane{next: l.freeLanes}
		l.freeLanes = ln
	}
}

func (l *lanes) pushReady(ln *lane) {
	if l.readyHead == nil {
		l.readyHead = ln
	} else {
		l.readyEnd.next = ln
	}
	l.readyEnd = ln
}

func (l *lanes) popReady() {
	ln := l.readyHead
	l.readyHead = ln.next
	ln.next = nil
	if l.readyHead == nil {
		l.readyEnd = nil
	}
}
