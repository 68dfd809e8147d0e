package eventstore

import (
	"bytes"
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// missingBytes is the approximate size at which one call of Missing stops.
const missingBytes = 16 << 20

// Missing reads the events from ≤ eventId ≤ to of the aggregate of ev, in order, at most
// limit of them. The result can be shorter, but not empty if there is an event: Missing
// stops after about 16 MiB. It also stops before an event that breaks the contract, which
// it logs, because such an event cannot be projected. An empty result means that the first
// event is absent or breaks the contract.
func (r *Reader) Missing(ctx context.Context, ev *event.Event, from, to int64, limit int) ([]*event.Event, error) {
	events, _, err := r.some(ctx, ev, from, to, limit, func(err error, found event.Event) bool {
		r.logger.Error().Err(err).Str("aggregateId", ev.AggregateID).Int64("eventId", found.EventID).
			Msg("event in the event store breaks the contract; its aggregate cannot continue")
		return false
	}, options.Find().SetLimit(int64(limit)))
	return events, err
}

// Readable is Missing for aggregates whose event ids only increase. It skips events that
// break the contract and counts them in broken. An empty result means that the store has no
// readable event in the range.
func (r *Reader) Readable(ctx context.Context, ev *event.Event, from, to int64, limit int) (events []*event.Event, broken int, err error) {
	return r.some(ctx, ev, from, to, limit, func(err error, found event.Event) bool {
		r.logger.Debug().Err(err).Str("aggregateId", ev.AggregateID).Int64("eventId", found.EventID).
			Msg("event in the event store breaks the contract; skipped")
		return true
	}, options.Find().SetBatchSize(int32(min(limit, batchSize))))
}

// some reads events of one aggregate, in order, up to limit or about missingBytes. pass
// reports whether to continue after an event that breaks the contract.
func (r *Reader) some(ctx context.Context, ev *event.Event, from, to int64, limit int, pass func(error, event.Event) bool, opts *options.FindOptionsBuilder) (events []*event.Event, broken int, err error) {
	if r.collated.Load() {
		opts.SetLimit(0) // The limit would count events of other aggregates.
	}
	cursor, err := r.events.Find(ctx, r.between(ev.RawAggregateID, from, to), opts.SetSort(bson.D{{Key: r.fields.EventID, Value: 1}}))
	if err != nil {
		return nil, 0, r.wrap(err, ev, from, to)
	}
	defer func() { _ = mongox.CloseCursor(ctx, cursor) }()
	for size := 0; size < missingBytes && len(events) < limit && cursor.Next(ctx); {
		found, err := r.Read(bytes.Clone(cursor.Current))
		if found.AggregateID != ev.AggregateID {
			continue // A collation of the collection matches other aggregates, too.
		}
		if err != nil {
			broken++
			if !pass(err, found) {
				break
			}
			continue
		}
		size += len(found.Document)
		events = append(events, &found)
	}
	if err := cursor.Err(); err != nil {
		return nil, 0, r.wrap(err, ev, from, to)
	}
	return events, broken, nil
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

func (r *Reader) wrap(err error, ev *event.Event, from, to int64) error {
	return fmt.Errorf("read events %d to %d of aggregate %q: %w", from, to, ev.AggregateID, err)
}
