package publish

import (
	"context"
	"slices"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

// Loaded is an event that was read from the event store again.
type Loaded struct {
	Event event.Event
	// Err is the reason if the event can no longer be published. The event then needs only
	// its document, if there is one.
	Err error
}

// maxLoaders bounds the concurrent reads of spilled events.
const maxLoaders = 4

// load asks a loader to read the next spilled events of a lane, if it may hold them.
func (l *lanes) load(ln *lane) {
	if !ln.loading && l.mayLoad(ln) {
		ln.loading = true
		l.loads = append(l.loads, ln)
	}
}

// mayLoad reports whether the lane has spilled events and may hold more of them. A lane that
// fails holds those of its next send only, and a lane without an answer none: otherwise a few
// such lanes would use up the memory of all.
func (l *lanes) mayLoad(ln *lane) bool {
	switch {
	case ln.spilled.len() == 0 || ln.slow:
		return false
	case ln.setback != nil:
		return ln.head == nil && (ln.state == laneEmpty || ln.state == laneReady)
	default:
		return ln.queued <= l.loadEvents/2
	}
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

// laneLoad is the part of a read that is for one lane.
type laneLoad struct {
	lane *lane
	refs []ref
}

// failedRead is a read that failed and is retried. Its lanes share it.
type failedRead struct {
	since time.Time
	err   error
}

// runLoader reads spilled events while there are any to read and room for them.
func (d *Dispatcher) runLoader(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for ctx.Err() == nil && d.canLoad() {
		loads, count, bytes := d.nextLoads()
		if count == 0 {
			break
		}
		d.mu.Unlock()
		events, err := d.read(ctx, loads, count)
		d.mu.Lock()
		d.reloaded -= count
		d.reloadedBytes -= bytes
		for _, load := range loads {
			load.lane.loading, load.lane.unread = false, nil
			if err == nil && !d.draining {
				d.loaded(load, events[:len(load.refs)])
				events = events[len(load.refs):]
			}
		}
		d.endDrain()
		d.wake()
	}
	d.loaders--
}

// nextLoads returns the events that are read next, of as many lanes as one read allows, and
// counts them as reloaded. The caller holds the mutex.
func (d *Dispatcher) nextLoads() (loads []laneLoad, count int, bytes int64) {
	l := &d.lanes
	maxBytes := d.options.MaxInflightBytes / loadShare
	for d.canLoad() && count < l.loadEvents && bytes <= maxBytes {
		ln := l.loads[0]
		l.loads[0] = nil
		l.loads = l.loads[1:]
		if !l.mayLoad(ln) {
			ln.loading = false
			continue
		}
		refs := d.wanted(ln, l.loadEvents-count, maxBytes-bytes)
		loads = append(loads, laneLoad{ln, refs})
		count += len(refs)
		d.reloaded += len(refs)
		for i := range refs {
			bytes += refs[i].size
			d.reloadedBytes += refs[i].size
		}
	}
	return loads, count, bytes
}

// wanted returns the spilled events of a lane that are read next: at least one, and only as
// many as one send may carry if the lane's sends fail. The caller holds the mutex.
func (d *Dispatcher) wanted(ln *lane, maxEvents int, maxBytes int64) []ref {
	if s := ln.setback; s != nil {
		maxEvents = min(maxEvents, max(1, d.lanes.loadEvents/failingShare))
		if s.maxEvents > 0 {
			maxEvents = min(maxEvents, s.maxEvents)
		}
	}
	queue := ln.spilled.queue()
	n := 0
	for n < min(maxEvents, len(queue)) && (n == 0 || queue[n].size <= maxBytes) {
		maxBytes -= queue[n].size
		n++
	}
	return slices.Clone(queue[:n])
}

// read reads events, and retries until ctx ends.
func (d *Dispatcher) read(ctx context.Context, loads []laneLoad, count int) ([]Loaded, error) {
	list := make([]Ref, 0, count)
	for _, load := range loads {
		for _, r := range load.refs {
			list = append(list, Ref{AggregateID: r.aggregate.raw, EventID: r.eventID})
		}
	}
	d.activity.store(1)
	defer d.activity.store(-1)
	retry := newBackoff()
	for {
		events, err := d.options.Load(ctx, list)
		if err == nil || ctx.Err() != nil {
			return events, err
		}
		d.noteUnread(loads, err)
		wait := retry.Next()
		d.retryLog.Warn().Err(err).Stringer("wait", wait.Round(time.Millisecond)).Int("events", count).
			Msg("events that wait for their turn not read from the event store; retrying")
		if err := poll.Wait(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// noteUnread records for the lanes of a read that it failed.
func (d *Dispatcher) noteUnread(loads []laneLoad, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	failed := loads[0].lane.unread
	if failed == nil {
		failed = &failedRead{since: time.Now()}
		for _, load := range loads {
			load.lane.unread = failed
		}
	}
	failed.err = err
}

// loaded puts events that were read again into their lane. The caller holds the mutex.
func (d *Dispatcher) loaded(load laneLoad, events []Loaded) {
	ln := load.lane
	if !d.lanes.mayLoad(ln) || ln.spilled.queue()[0].ticket != load.refs[0].ticket {
		d.lanes.load(ln) // the lane fails, or older events were dropped from memory meanwhile
		return
	}
	ln.spilled.pop(len(load.refs))
	d.spilled -= len(load.refs)
	submitted := d.options.Tracer.Now()
	for i, r := range load.refs {
		e := d.lanes.entry()
		e.item, e.size, e.submitted = Item{Event: events[i].Event, Ticket: r.ticket, Size: int(r.size)}, r.size, submitted
		e.reloaded, e.unpublishable = true, events[i].Err
		if e.unpublishable != nil {
			keys := &e.item.Event
			keys.AggregateID, keys.RawAggregateID, keys.EventID = r.aggregate.id, r.aggregate.raw, r.eventID
		}
		d.reloaded++
		d.reloadedBytes += e.size
		d.lanes.enqueue(ln, e)
	}
	d.lanes.load(ln)
	d.notifySpace()
}
