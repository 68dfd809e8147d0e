package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

const (
	// repairPage is how many events are read from the event store at once.
	repairPage = 500
	// maxRepairBytes bounds the bytes that one round reads from the event store, except
	// for the last page, before it writes. A batch may lack the history of all its
	// aggregates, which fits neither into memory nor into the time of one call.
	maxRepairBytes = 1 << 20
)

// maxDeferringReads bounds the reads of the event store in one round for units that may be
// deferred. The job that builds their generation reads the same events anyway.
const maxDeferringReads = 16

// errRepairFull says that the events read so far must be written first.
var errRepairFull = errors.New("enough has been read from the event store")

// repairRead holds what one round reads from the event store.
type repairRead struct {
	bytes int
	pages map[pageKey][]*projection.Event
}

// pageKey names the events of a page. The projections of an aggregate mostly miss the
// same events, so they share pages.
type pageKey struct {
	aggregate *aggregate
	from, to  int64
}

// missing returns a page of the events of the unit's aggregate with ids from..to.
// The page ends before the first hole. The error is errRepairFull if the page has not been
// read yet and the round has read maxRepairBytes.
func (p *repairRead) missing(ctx context.Context, b *batch, u *unit, from, to int64) ([]*projection.Event, error) {
	key := pageKey{u.aggregate, from, to}
	if page, ok := p.pages[key]; ok {
		return page, nil
	}
	if p.bytes >= maxRepairBytes {
		return nil, errRepairFull
	}
	return p.page(ctx, b, u, from, to)
}

// page reads a page, without regard to maxRepairBytes.
func (p *repairRead) page(ctx context.Context, b *batch, u *unit, from, to int64) ([]*projection.Event, error) {
	attempt, cancel := b.oneAttempt(ctx)
	defer cancel()
	events, err := b.repairer.Missing(attempt, u.aggregate.events[0].Event, from, to, repairPage)
	if err != nil {
		return nil, fmt.Errorf("read missing events of %s: %w", u.AggregateID, err)
	}
	for _, ev := range events {
		p.bytes += len(ev.Document)
	}
	page := viewsOf(inOrder(events, from))
	if p.pages == nil {
		p.pages = make(map[pageKey][]*projection.Event)
	}
	p.pages[pageKey{u.aggregate, from, to}] = page
	return page, nil
}

// repair handles units whose next event is missing. It acknowledges the events of parked
// units. For the other units it reads the event store or holds their events. It returns
// the units that can go on.
func (b *batch) repair(ctx context.Context, units []*unit) (again []*unit) {
	var read repairRead
	for _, u := range b.skipParked(ctx, units) {
		if b.fillGap(ctx, &read, u) {
			again = append(again, u)
		}
	}
	return again
}

// fillGap reads the events between the unit's watermark and its next event, and reports
// whether the unit can go on. For a unit that may be deferred, it reads only if one page
// completes the unit.
func (b *batch) fillGap(ctx context.Context, read *repairRead, u *unit) bool {
	from, to := u.watermark+1, u.aggregate.events[len(u.settled)].EventID-1
	tooMany := to-from >= repairPage || len(read.pages) >= maxDeferringReads
	if u.target.Defers && tooMany {
		u.held = true
		return false
	}
	events, err := read.missing(ctx, b, u, from, to)
	result := gapRepaired
	switch {
	case err != nil && !errors.Is(err, errRepairFull):
		u.trouble = err
		return false
	case u.target.Defers && int64(len(events)) != to-from+1: // pages of large events end early
		u.held = true
		return false
	case err != nil:
		return true
	case len(events) > 0:
		u.missing = events
	case b.fillAnew(ctx, u):
	case u.held:
		result = gapMissing
	default:
		return false
	}
	// The topic delivered what a building generation lacks before that generation existed.
	if !u.target.Building {
		b.metrics.gaps.WithLabelValues(result).Inc()
	}
	return result == gapRepaired
}

// fillAnew has the unit begin anew with a snapshot if the event store has no earlier event of the
// aggregate, and reports whether the unit can go on.
func (b *batch) fillAnew(ctx context.Context, u *unit) bool {
	first, err := b.snapshotOf(ctx, u, u.aggregate.events[0].Event)
	switch {
	case err != nil:
		u.trouble = err
		return false
	case first == nil:
		u.held = true
		return false
	case first.EventID != u.aggregate.events[len(u.settled)].EventID:
		u.missing = viewsOf([]*event.Event{first})
	}
	return true
}

// snapshotOf returns the first event that the event store has of the aggregate of ev, if it is a
// snapshot and follows a gap after the unit's watermark; nil otherwise. The unit then begins with it: the
// events before it are archived, whether the unit has some of them or none.
func (b *batch) snapshotOf(ctx context.Context, u *unit, ev *event.Event) (*event.Event, error) {
	if !u.target.Projection.HasSnapshots() {
		return nil, nil
	}
	attempt, cancel := b.oneAttempt(ctx)
	defer cancel()
	first, err := b.repairer.First(attempt, ev)
	if err != nil || first == nil || u.target.Projection.BeginsAt(first, u.FirstEvent()) <= u.watermark+1 {
		return nil, err
	}
	u.begin = first.EventID
	return first, nil
}

// deferRest leaves unfinished events to the jobs that build the generations. A unit whose
// target was replaced is not deferred: its events are offered again under the new targets.
func (b *batch) deferRest() {
	for _, u := range b.units {
		if !u.target.Defers || u.finished() || errors.Is(u.trouble, model.ErrSuperseded) {
			continue
		}
		u.trouble, u.held, u.conflict = nil, false, nil
		u.settleRest(settledDeferred)
	}
}

// inOrder returns the leading events whose ids follow each other, beginning with from.
func inOrder(events []*event.Event, from int64) []*event.Event {
	n := 0
	for n < len(events) && events[n].EventID == from+int64(n) {
		n++
	}
	return events[:n]
}

func viewsOf(events []*event.Event) []*projection.Event {
	views := make([]*projection.Event, len(events))
	for i, ev := range events {
		views[i] = projection.NewEvent(ev)
	}
	return views
}
