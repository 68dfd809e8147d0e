package eventstore

import (
	"bytes"
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// missingBytes is the approximate size at which one call of Missing stops.
const missingBytes = 16 << 20

// Missing reads the events from ≤ eventId ≤ to of the aggregate of ev, in order, at most
// limit of them. The result can be shorter, but not empty if there is an event: Missing
// stops after about 16 MiB. It also stops before an event that breaks the contract, which
// it logs, because such an event cannot be projected. An empty result means that the first
// event is absent or breaks the contract.
func (r *Reader) Missing(ctx context.Context, ev *event.Event, from, to int64, limit int) (events []*event.Event, err error) {
	// A limit would count events of the other aggregates that a collation of the collection
	// matches, too. The batch has room for one event more, so one reply closes the cursor.
	opts := options.Find().SetBatchSize(int32(limit) + 1).SetSort(bson.D{{Key: r.fields.EventID, Value: 1}})
	size := 0
	err = r.each(ctx, r.between(ev.RawAggregateID, from, to), opts, func(document bson.Raw) bool {
		found, err := r.Read(bytes.Clone(document))
		switch {
		case found.AggregateID != ev.AggregateID:
			return true
		case err != nil:
			r.logger.Error().Err(err).Str("aggregateId", ev.AggregateID).Int64("eventId", found.EventID).
				Msg("event in the event store breaks the contract; its aggregate cannot continue")
			return false
		}
		size += len(found.Document)
		events = append(events, &found)
		return size < missingBytes && len(events) < limit
	})
	if err != nil {
		return nil, fmt.Errorf("read events %d to %d of aggregate %q: %w", from, to, ev.AggregateID, err)
	}
	return events, nil
}

// Whole reads the event with the keys of ev. It fails with [ErrNotFound] if the store
// does not have the event.
func (r *Reader) Whole(ctx context.Context, ev *event.Event) (*event.Event, error) {
	events, err := r.Missing(ctx, ev, ev.EventID, ev.EventID, 1)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("read event %d of aggregate %q: %w", ev.EventID, ev.AggregateID, ErrNotFound)
	}
	return events[0], nil
}
