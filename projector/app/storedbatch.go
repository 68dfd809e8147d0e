package app

import (
	"context"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
)

// reasonNotStored is the reason of a dead letter whose event the event store does not have,
// with PENSTOCK_TRUST=store.
const reasonNotStored = "not_in_event_store"

// storedBatch reads the events of a batch from the event store. An aggregate's events are
// adjacent in a batch and in order.
type storedBatch struct {
	events storedEvents
	batch  []*drain.Delivery
	// ahead makes one query read the next events of the aggregate too.
	ahead bool
	// found are the events of the aggregate that were read ahead, by their ids.
	aggregateID string
	found       map[int64]*event.Event
}

// event reads the event of the delivery i.
func (b *storedBatch) event(ctx context.Context, i int) (*event.Event, error) {
	ev := &b.batch[i].Event
	if b.ahead && b.aggregateID != ev.AggregateID {
		if err := b.read(ctx, i); err != nil {
			return nil, err
		}
	}
	if whole := b.found[ev.EventID]; whole != nil && b.aggregateID == ev.AggregateID {
		return whole, nil
	}
	return b.events.Whole(ctx, ev)
}

// read reads the events of an aggregate from the delivery i on, up to about maxClaimBytes
// by the sizes of the messages.
func (b *storedBatch) read(ctx context.Context, i int) error {
	first, last := &b.batch[i].Event, i
	size := b.batch[i].Size()
	for _, next := range b.batch[i+1:] {
		if size += next.Size(); next.Event.AggregateID != first.AggregateID || next.ClaimCheck || size > maxClaimBytes {
			break
		}
		last++
	}
	events, err := b.events.Missing(ctx, first, first.EventID, b.batch[last].Event.EventID, last-i+1)
	if err != nil {
		return err
	}
	b.aggregateID, b.found = first.AggregateID, make(map[int64]*event.Event, len(events))
	for _, whole := range events {
		b.found[whole.EventID] = whole
	}
	return nil
}
