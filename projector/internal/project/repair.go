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
	// repairPortion bounds the bytes that are read from the event store, but for the
	// last page, before what was read is written. A batch may lack the history of all
	// its aggregates: memory would not hold it, nor a call have the time to read it.
	repairPortion = 1 << 20
)

// errPortionFull says that what has been read is to be written first.
var errPortionFull = errors.New("enough has been read from the event store")

// portion is what one round reads from the event store.
type portion struct {
	bytes int
	pages map[pageKey][]*eventView
}

// pageKey is what a page holds. The projections of an aggregate mostly miss the
// same.
type pageKey struct {
	aggregate *aggregate
	from, to  int64
}

// missing gives the events after the unit's watermark, as far as they follow it
// without a hole and as many as a page has. It is errPortionFull where they were to
// be read and enough has been.
func (p *portion) missing(ctx context.Context, r Repairer, u *unit) ([]*eventView, error) {
	first := u.aggregate.events[len(u.settled)]
	key := pageKey{u.aggregate, u.watermark + 1, first.EventID - 1}
	if page, ok := p.pages[key]; ok {
		return page, nil
	}
	if p.bytes >= repairPortion {
		return nil, errPortionFull
	}
	events, err := r.Missing(ctx, first.Event, key.from, key.to, repairPage)
	if err != nil {
		return nil, err
	}
	for _, ev := range events {
		p.bytes += len(ev.Document)
	}
	page := viewInOrder(events, key.from)
	if p.pages == nil {
		p.pages = make(map[pageKey][]*eventView)
	}
	p.pages[key] = page
	return page, nil
}

// repair deals with units whose next event is not there: the events of parked units
// are acknowledged, for the other units the event store is read, or they are held. It
// returns the units that can go on.
func (b *batch) repair(ctx context.Context, units []*unit) (again []*unit) {
	var read portion
	for _, u := range b.skipParked(ctx, units) {
		if b.gaps == Hold || b.repairer == nil {
			u.held = true
			b.metrics.gaps.WithLabelValues(gapHeld).Inc()
			continue
		}
		attempt, cancel := b.oneAttempt(ctx)
		events, err := read.missing(attempt, b.repairer, u)
		cancel()
		switch {
		case errors.Is(err, errPortionFull):
			again = append(again, u)
		case err != nil:
			u.trouble = fmt.Errorf("read missing events of %s: %w", u.AggregateID, err)
		case len(events) == 0:
			u.held = true
			b.metrics.gaps.WithLabelValues(gapMissing).Inc()
		default:
			u.missing = events
			again = append(again, u)
			b.metrics.gaps.WithLabelValues(gapRepaired).Inc()
		}
	}
	return again
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
