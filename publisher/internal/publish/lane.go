package publish

import (
	"container/heap"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/tracing"
)

// entry is one event in flight, from Submit to its acknowledgement. Entries are
// reused.
type entry struct {
	item    Item
	size    int64
	lane    *lane
	next    *entry // behind it in its lane, or in the free list
	message event.Message
	// begun says that message has its trace context. Only in a batch does it have its body.
	begun bool
	// body is the measured length of the body; 0 if it was not measured.
	body int
	// claim says that the event is sent as a claim check, large that its message is sent
	// alone.
	claim, large bool
	// submitted is when it was submitted, if the dispatcher traces. span begins there. It
	// is started when the message is encoded, and only if the event is sampled.
	submitted time.Time
	span      tracing.Span
}

// lane holds the events of one session key that are in flight. An empty lane does not
// exist.
type lane struct {
	key        string
	head, tail *entry   // queued
	sending    int      // taken by a worker and not settled: those queued wait for all of them
	setback    *setback // what its failed sends say; nil if none failed since one was accepted
	next       *lane    // behind it in a ready queue, or in the free list
}

// slot is the kind of a batch in flight. Each has a queue of ready lanes.
type slot int

const (
	slotLarge slot = iota // one large message
	slotRegular
	slotAlone // batches that failed before, or whose answer is late

	slots // the number of slots
)

// laneQueue is a queue of ready lanes, oldest first.
type laneQueue struct{ head, tail *lane }

func (q *laneQueue) push(ln *lane) {
	if q.head == nil {
		q.head = ln
	} else {
		q.tail.next = ln
	}
	q.tail = ln
}

func (q *laneQueue) pop() {
	ln := q.head
	q.head = ln.next
	ln.next = nil
	if q.head == nil {
		q.tail = nil
	}
}

// lanes are the events in flight by session key. The owner's mutex guards them.
type lanes struct {
	byKey map[string]*lane
	// ready are the lanes that have queued events, have none in a send and do not wait, by the
	// slot of their next batch.
	ready [slots]laneQueue
	// waiting are the lanes whose wait has not ended, ordered by its end.
	waiting laneHeap
	// forTopic counts the waiting lanes that failed while the topic accepted nothing else.
	forTopic int
	// setbacks counts the lanes with a setback.
	setbacks    int
	freeEntries *entry
	freeLanes   *lane
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

// add appends an event to the queue of its session key.
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
		l.offer(ln)
	}
}

// take moves events from the oldest lanes of a ready queue to a batch, within the bounds
// but at least one. The events come from one lane, or with mixed from as many lanes as fit.
func (l *lanes) take(batch []*entry, slot slot, mixed bool, maxEvents int, maxBytes int64) []*entry {
	var bytes int64
	from := &l.ready[slot]
	for from.head != nil && len(batch) < maxEvents {
		ln := from.head
		if len(batch) > 0 && bytes+ln.head.size > maxBytes {
			break
		}
		if s := ln.setback; s != nil && s.maxEvents > 0 {
			if len(batch) >= s.maxEvents {
				break
			}
			maxEvents = min(maxEvents, s.maxEvents)
		}
		from.pop()
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

// putBack returns taken events to the front of their lanes, in order, without their bodies.
func (l *lanes) putBack(entries []*entry) {
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		ln := e.lane
		e.message.Body = nil
		e.next = ln.head
		ln.head = e
		if ln.tail == nil {
			ln.tail = e
		}
		l.settle(ln)
	}
}

// remove drops taken events that are settled. Unless older events of their lanes are not
// settled, it ends the setback of their lanes, because the next events have not failed.
func (l *lanes) remove(entries []*entry, oldest bool) {
	for _, e := range entries {
		ln := e.lane
		if ln.setback != nil && oldest {
			ln.setback = nil
			l.setbacks--
		}
		l.release(e)
		l.settle(ln)
	}
}

// release puts an entry into the free list.
func (l *lanes) release(e *entry) {
	*e = entry{next: l.freeEntries}
	l.freeEntries = e
}

// settle counts one taken event of a lane as settled. After the last one the lane becomes
// ready, waits, or is removed.
func (l *lanes) settle(ln *lane) {
	ln.sending--
	switch {
	case ln.sending > 0:
		return
	case ln.head != nil:
		l.offer(ln)
	default:
		delete(l.byKey, ln.key)
		*ln = lane{next: l.freeLanes}
		l.freeLanes = ln
	}
}

// offer makes a lane with events ready, or lets it wait first.
func (l *lanes) offer(ln *lane) {
	switch s := ln.setback; {
	case s != nil && !s.until.IsZero():
		heap.Push(&l.waiting, ln)
		if !s.topicWorks {
			l.forTopic++
		}
	case ln.head.large:
		l.ready[slotLarge].push(ln)
	case s != nil && s.alone:
		l.ready[slotAlone].push(ln)
	default:
		l.ready[slotRegular].push(ln)
	}
}

// endWaits makes lanes ready whose wait is over, and gives the time of the next one; zero
// if none waits.
func (l *lanes) endWaits(now time.Time) time.Time {
	for len(l.waiting) > 0 {
		if next := l.waiting[0].setback.until; next.After(now) {
			return next
		}
		ln, _ := heap.Pop(&l.waiting).(*lane)
		if !ln.setback.topicWorks {
			l.forTopic--
		}
		ln.setback.until = time.Time{}
		l.offer(ln)
	}
	return time.Time{}
}

// topicAccepts makes lanes ready that failed while the topic accepted nothing else: it accepts
// events again, so they need not wait longer.
func (l *lanes) topicAccepts() {
	if l.forTopic == 0 {
		return
	}
	var still laneHeap
	was := l.waiting
	l.waiting = nil
	for _, ln := range was {
		s := ln.setback
		if s.topicWorks {
			still = append(still, ln)
			continue
		}
		if s.last.fault != FaultRefused {
			s.maxEvents, s.alone = 0, false
		}
		s.until = time.Time{}
		l.offer(ln)
	}
	heap.Init(&still)
	l.waiting, l.forTopic = still, 0
}

// laneHeap orders waiting lanes by the end of their wait.
type laneHeap []*lane

func (h laneHeap) Len() int           { return len(h) }
func (h laneHeap) Less(i, j int) bool { return h[i].setback.until.Before(h[j].setback.until) }
func (h laneHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements [heap.Interface].
func (h *laneHeap) Push(x any) {
	ln, _ := x.(*lane)
	*h = append(*h, ln)
}

// Pop implements [heap.Interface].
func (h *laneHeap) Pop() any {
	last := len(*h) - 1
	ln := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return ln
}
