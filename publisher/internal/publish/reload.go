package publish

import (
	"context"
	"time"

	"github.com/penstock-cdc/penstock/pkg/backoff"
	"github.com/penstock-cdc/penstock/pkg/event"
)

// maxLoaders bounds the concurrent reads of spilled events.
const maxLoaders = 4

// load asks a loader to read the next spilled events of a lane, if it has few others.
func (l *lanes) load(ln *lane) {
	if ln.loading || ln.spilled.len() == 0 || ln.queued > l.loadEvents/2 || ln.setback != nil && ln.setback.waits {
		return
	}
	ln.loading = true
	l.loads = append(l.loads, ln)
}

// wakeLoader starts a loader if one may work. The caller holds the mutex.
func (d *Dispatcher) wakeLoader() {
	if d.loaders >= maxLoaders || d.spawnLoader == nil || !d.canLoad() {
		return
	}
	d.loaders++
	d.spawnLoader()
}

// canLoad reports whether a lane waits for its events and there is room for them. Their part
// of the memory is separate, so that other events cannot keep them out. The caller holds the
// mutex.
func (d *Dispatcher) canLoad() bool {
	return len(d.lanes.loads) > 0 && !d.draining &&
		d.reloaded < max(1, d.options.MaxInflightEvents/reloadShare) &&
		d.reloadedBytes < max(1, d.options.MaxInflightBytes/reloadShare)
}

// runLoader reads spilled events while there are any to read and room for them.
func (d *Dispatcher) runLoader(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for ctx.Err() == nil && d.canLoad() {
		ln := d.lanes.loads[0]
		d.lanes.loads = append(d.lanes.loads[:0], d.lanes.loads[1:]...)
		wanted, bytes := d.wanted(ln)
		d.reloaded += len(wanted)
		d.reloadedBytes += bytes
		d.mu.Unlock()
		events, err := d.read(ctx, wanted)
		d.mu.Lock()
		d.reloaded -= len(wanted)
		d.reloadedBytes -= bytes
		ln.loading = false
		if err != nil {
			break // Run ends
		}
		if !d.draining {
			d.loaded(ln, wanted, events)
		}
		d.endDrain()
		d.wake()
	}
	d.loaders--
}

// wanted returns the spilled events that are read next, and their size: at least one, and
// only as many as one send may carry if the lane's sends fail. The caller holds the mutex.
func (d *Dispatcher) wanted(ln *lane) (wanted []ref, bytes int64) {
	most := d.lanes.loadEvents
	if ln.setback != nil && ln.setback.most > 0 {
		most = min(most, ln.setback.most)
	}
	queue := ln.spilled.queue()
	n := 0
	for n < min(most, len(queue)) && (n == 0 || bytes+queue[n].size <= d.options.MaxInflightBytes/loadShare) {
		bytes += queue[n].size
		n++
	}
	return append([]ref(nil), queue[:n]...), bytes
}

// read reads events, and retries until ctx ends.
func (d *Dispatcher) read(ctx context.Context, wanted []ref) ([]event.Event, error) {
	list := make([]Ref, len(wanted))
	for i, r := range wanted {
		list[i] = Ref{AggregateID: r.aggregate.raw, EventID: r.eventID}
	}
	d.activity.store(1)
	defer d.activity.store(-1)
	retry := newBackoff()
	for {
		events, err := d.options.Load(ctx, list)
		if err == nil || ctx.Err() != nil {
			return events, err
		}
		wait := retry.Next()
		d.stumbles.Warn().Err(err).Stringer("wait", wait.Round(time.Millisecond)).Int("events", len(wanted)).
			Msg("events that wait for their turn not read from the event store; retrying")
		if err := backoff.Wait(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// loaded puts events that were read again into their lane. The caller holds the mutex.
func (d *Dispatcher) loaded(ln *lane, wanted []ref, events []event.Event) {
	if ln.spilled.queue()[0].ticket != wanted[0].ticket {
		d.lanes.load(ln) // older events were dropped from memory meanwhile
		return
	}
	ln.spilled.pop(len(wanted))
	d.spilled -= len(wanted)
	submitted := d.options.Tracer.Now()
	for i, r := range wanted {
		e := d.lanes.entry()
		e.item, e.size, e.submitted = Item{Event: events[i], Ticket: r.ticket, Size: int(r.size)}, r.size, submitted
		e.reloaded, e.lost = true, events[i].Document == nil
		if e.lost {
			e.item.Event.AggregateID, e.item.Event.EventID = r.aggregate.id, r.eventID
		}
		d.reloaded++
		d.reloadedBytes += e.size
		d.lanes.enqueue(ln, e)
	}
	d.lanes.load(ln)
	if d.waiting > 0 {
		d.notifySpace()
	}
}
