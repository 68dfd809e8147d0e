package project

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/event"
)

const (
	// repairPage is how many events are read from the event store at once.
	repairPage = 500
	// maxRepairBytes bounds the bytes that are read from the event store, but for the
	// last page, before what was read is written. A batch may lack the history of all
	// its aggregates: memory would not hold it, nor a call have the time to read it.
	maxRepairBytes = 1 << 20
)

// errRepairFull says that what has been read is to be written first.
var errRepairFull = errors.New("enough has been read from the event store")

// repairRead holds what one round reads from the event store.
type repairRead struct {
	bytes int
	pages map[pageKey][]*eventView
}

// pageKey is what a page holds. The projections of an aggregate mostly miss the
// same.
type pageKey struct {
	aggregate *aggregate
	from, to  int64
}

// missing gives a page of the events of the unit's aggregate that have these ids: in a
// strict sequence as far as they follow each other without a hole. It is errRepairFull if
// they would have to be read and enough has been.
func (p *repairRead) missing(ctx context.Context, b *batch, u *unit, from, to int64) ([]*eventView, error) {
	key := pageKey{u.aggregate, from, to}
	if page, ok := p.pages[key]; ok {
		return page, nil
	}
	if p.bytes >= maxRepairBytes {
		return nil, errRepairFull
	}
	return p.page(ctx, b, u, from, to)
}

// page reads a page, whatever has been read before.
func (p *repairRead) page(ctx context.Context, b *batch, u *unit, from, to int64) ([]*eventView, error) {
	attempt, cancel := b.oneAttempt(ctx)
	defer cancel()
	events, err := b.repairer.Missing(attempt, u.aggregate.events[0].Event, from, to, repairPage)
	if err != nil {
		return nil, fmt.Errorf("read missing events of %s: %w", u.AggregateID, err)
	}
	for _, ev := range events {
		p.bytes += len(ev.Document)
	}
	page := b.viewPage(events, from)
	if p.pages == nil {
		p.pages = make(map[pageKey][]*eventView)
	}
	p.pages[pageKey{u.aggregate, from, to}] = page
	return page, nil
}

// repair deals with units whose next event is not there: the events of parked units
// are acknowledged, for the other units the event store is read, or they are held. It
// returns the units that can go on.
func (b *batch) repair(ctx context.Context, units []*unit) (again []*unit) {
	var read repairRead
	for _, u := range b.skipParked(ctx, units) {
		fill := b.fillGap
		if u.target.Building || u.unread(b.strict) {
			fill = b.fillBuilding
		}
		if fill(ctx, &read, u) {
			again = append(again, u)
		}
	}
	return again
}

// fillGap reads the events between the unit's watermark and its next event, and reports
// whether the unit can go on.
func (b *batch) fillGap(ctx context.Context, read *repairRead, u *unit) bool {
	if b.gaps == Hold || b.repairer == nil {
		u.held = true
		b.metrics.gaps.WithLabelValues(gapHeld).Inc()
		return false
	}
	events, err := read.missing(ctx, b, u, u.watermark+1, u.aggregate.events[len(u.settled)].EventID-1)
	switch {
	case errors.Is(err, errRepairFull):
	case err != nil:
		u.trouble = err
		return false
	case len(events) == 0:
		u.held = true
		b.metrics.gaps.WithLabelValues(gapMissing).Inc()
		return false
	default:
		u.missing = events
		b.metrics.gaps.WithLabelValues(gapRepaired).Inc()
	}
	return true
}

// viewPage takes the events of a page: in a strict sequence those that count from one up.
func (b *batch) viewPage(events []*event.Event, from int64) []*eventView {
	if b.strict {
		return viewInOrder(events, from)
	}
	views := make([]*eventView, len(events))
	for i, ev := range events {
		views[i] = viewEvent(ev)
	}
	return views
}

// viewInOrder takes the events that count from one up.
func viewInOrder(events []*event.Event, from int64) []*eventView {
	views := make([]*eventView, 0, len(events))
	for _, ev := range events {
		if ev.EventID != from {
			break
		}
		views = append(views, viewEvent(ev))
		from++
	}
	return views
}
