package publish

import (
	"bytes"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	// loadShare is the part of the in-flight bounds, as a divisor, that one read asks for, and
	// reloadShare the part that all such events may use in addition. failingShare is the part
	// of a read that a lane may use whose sends fail.
	loadShare    = 16
	reloadShare  = 4
	failingShare = 8
	// submitTimeout is how long Submit waits before it drops the events of every slow lane.
	submitTimeout = 100 * time.Millisecond
	// failsLong is how long a lane must have failed before its events are dropped.
	failsLong = 500 * time.Millisecond
)

// errSpilled is the status of a span whose event was dropped from memory.
var errSpilled = errors.New("the event is read again from the event store")

// Ref names an event in the event store.
type Ref struct {
	// AggregateID has its type in the store.
	AggregateID bson.RawValue
	EventID     int64
}

// ref is an event that its lane does not hold in memory.
type ref struct {
	aggregate *aggregate
	eventID   int64
	ticket    uint64
	size      int64
}

// aggregate is shared by consecutive refs.
type aggregate struct {
	id  string
	raw bson.RawValue
}

// refs is a queue of events that are not held in memory. Its front has room for those that
// were taken from it.
type refs struct {
	list  []ref
	first int
}

func (r *refs) len() int { return len(r.list) - r.first }

func (r *refs) queue() []ref { return r.list[r.first:] }

func (r *refs) push(next ref) {
	if r.first > len(r.list)/2 && len(r.list) == cap(r.list) {
		r.list = r.list[:copy(r.list, r.queue())]
		r.first = 0
	}
	r.list = append(r.list, next)
}

// pop removes the n oldest.
func (r *refs) pop(n int) {
	clear(r.list[r.first : r.first+n])
	if r.first += n; r.first == len(r.list) {
		*r = refs{}
	}
}

// prepend puts older ones before all others.
func (r *refs) prepend(older []ref) {
	if len(older) <= r.first {
		r.first -= len(older)
		copy(r.list[r.first:], older)
		return
	}
	*r = refs{list: append(older, r.queue()...)}
}

// refTo returns the ref to an event, which shares its aggregate with the one before it if
// that is the same.
func refTo(item *Item, size int64, before *aggregate) ref {
	id := item.Event.RawAggregateID
	if before == nil || before.raw.Type != id.Type || !bytes.Equal(before.raw.Value, id.Value) {
		before = &aggregate{id: item.Event.AggregateID, raw: bson.RawValue{Type: id.Type, Value: bytes.Clone(id.Value)}}
	}
	return ref{aggregate: before, eventID: item.Event.EventID, ticket: item.Ticket, size: size}
}

// spill appends an event to the lane without keeping it in memory. The caller holds the
// mutex.
func (d *Dispatcher) spill(ln *lane, item *Item, size int64) {
	var before *aggregate
	if queue := ln.spilled.queue(); len(queue) > 0 {
		before = queue[len(queue)-1].aggregate
	}
	ln.spilled.push(refTo(item, size, before))
	d.spilled++
}

// makeRoom drops the queued events of slow lanes from memory so that others can be
// submitted, and reports whether it dropped any. Without it, one key that is busy or blocked
// would stop all of them. The caller holds the mutex.
//
// A lane is slow if its next event was overtaken by more events than may be in flight: so
// most of them are on the topic. A short queue is dropped only after submitTimeout, because a
// busy topic answers in the meantime. Then a lane that fails or gets no answer is slow, too,
// because all events in flight can be its own. So an outage of the whole topic drops events as
// well, up to MaxSpilledEvents: the events that are read next could be those of keys that the
// topic accepts.
func (d *Dispatcher) makeRoom(timedOut bool) bool {
	bound := uint64(d.options.MaxInflightEvents)
	if d.options.Load == nil || d.spilled >= d.options.MaxSpilledEvents || !timedOut && d.taken-d.scanned < bound/loadShare {
		return false
	}
	d.scanned = d.taken
	before := d.spilled
	now := time.Now()
	for _, ln := range d.lanes.byKey {
		e := ln.head
		for e != nil && e.reloaded { // they have a separate bound
			e = e.next
		}
		if e == nil {
			continue
		}
		overtaken := d.taken-e.number > bound && (timedOut || ln.queued >= d.lanes.loadEvents)
		if overtaken || timedOut && (ln.slow || ln.setback != nil && now.Sub(ln.setback.begun) > failsLong) {
			d.unload(ln, e)
		}
	}
	return d.spilled > before
}

// unloadReloaded drops the queued events of a lane from memory that were read again, because
// other lanes need their memory. At the end of the term nothing is read again. The caller
// holds the mutex.
func (d *Dispatcher) unloadReloaded(ln *lane) {
	if d.draining {
		return
	}
	for e := ln.head; e != nil; e = e.next {
		if e.reloaded {
			d.unload(ln, e)
			return
		}
	}
}

// unload drops the queued events of a lane from memory, beginning with the given one. The
// caller holds the mutex.
//
// A lane without queued events may stay in a ready queue: take skips it.
func (d *Dispatcher) unload(ln *lane, first *entry) {
	var last *entry // of those that stay
	for e := ln.head; e != first; e = e.next {
		last = e
	}
	var older []ref
	var before *aggregate
	for e := first; e != nil; {
		next := e.next
		older = append(older, refTo(&e.item, e.size, before))
		before = older[len(older)-1].aggregate
		d.leaveMemory(e)
		e.span.End(errSpilled)
		d.lanes.release(e)
		e = next
	}
	if ln.tail = last; last == nil {
		ln.head = nil
	} else {
		last.next = nil
	}
	ln.queued -= len(older)
	ln.spilled.prepend(older)
	d.spilled += len(older)
}

// leaveMemory stops counting an event as held in memory. The caller holds the mutex.
func (d *Dispatcher) leaveMemory(e *entry) {
	if e.reloaded {
		d.reloaded--
		d.reloadedBytes -= e.size
		return
	}
	d.inflight--
	d.inflightBytes -= e.size
}
