package app

import (
	"context"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
)

// aheadOverhead is by how much more than twice the size of its message an event may be that
// is read together with others.
const aheadOverhead = 1 << 10

// storedBatch reads the events of a batch from the event store. An aggregate's events are
// adjacent in a batch and in order.
type storedBatch struct {
	events storedEvents
	batch  []*drain.Delivery
	large  largeRead
	// ahead makes one query read the next events of the aggregate too.
	ahead bool
	// found are the events of the aggregate that were read ahead, by their ids. They are as
	// small as their messages, so that they need no turn. until is the last id that was asked
	// for.
	aggregateID string
	until       int64
	found       map[int64]*event.Event
}

// event reads the event of the delivery i.
func (b *storedBatch) event(ctx context.Context, i int) (*event.Event, error) {
	ev := &b.batch[i].Event
	if whole := b.found[ev.EventID]; whole != nil && b.aggregateID == ev.AggregateID {
		return whole, nil
	}
	if b.large.full() {
		return nil, errReadsFull
	}
	if b.ahead && (b.aggregateID != ev.AggregateID || ev.EventID > b.until) {
		if err := b.read(ctx, i); err != nil {
			return nil, err
		}
		if whole := b.found[ev.EventID]; whole != nil {
			return whole, nil
		}
	}
	if err := b.large.begin(ctx); err != nil {
		return nil, err
	}
	whole, err := b.events.Whole(ctx, ev)
	if err != nil {
		b.large.read(0)
		return nil, err
	}
	b.large.read(len(whole.Document))
	return whole, nil
}

// read reads the events of an aggregate from the delivery i on, up to smallRead. Anybody can
// have sent a message, so the server leaves out events that are much larger than their
// messages.
func (b *storedBatch) read(ctx context.Context, i int) error {
	first, last := &b.batch[i].Event, i-1
	largest := 0
	for _, next := range b.batch[i:] {
		size := max(largest, 2*next.Size()+aheadOverhead)
		if next.Event.AggregateID != first.AggregateID || next.ClaimCheck || size*(last-i+2) > smallRead {
			break
		}
		largest = size
		last++
	}
	b.aggregateID, b.until, b.found = first.AggregateID, first.EventID, nil
	if last < i {
		return nil
	}
	b.until = b.batch[last].Event.EventID
	events, err := b.events.Small(ctx, first, first.EventID, b.until, last-i+1, largest)
	if err != nil {
		return err
	}
	b.found = make(map[int64]*event.Event, len(events))
	for _, whole := range events {
		b.found[whole.EventID] = whole
		b.large.read(len(whole.Document))
	}
	return nil
}
