package eventstore

import (
	"context"
	"fmt"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Newest gives the highest event id of an aggregate, or the id before the first event if the
// store has no readable event of it. Events without a valid id do not count: they are in the quarantine. The error is MongoDB's.
func (r *Reader) Newest(ctx context.Context, aggregateID string) (int64, error) {
	known, err := r.Known(ctx, []string{aggregateID})
	id, ok := known[aggregateID]
	if err != nil || !ok {
		return r.fields.FirstEventID - 1, err
	}
	newest := r.fields.FirstEventID - 1
	err = r.each(ctx, r.between(id, math.MinInt64, math.MaxInt64),
		options.Find().SetSort(bson.D{{Key: r.fields.EventID, Value: -1}}).SetProjection(r.keyProjection()).SetBatchSize(1), func(document bson.Raw) bool {
			ev, err := r.reader.ReadPosition(document)
			found := err == nil && ev.AggregateID == aggregateID
			if found {
				newest = ev.EventID
			}
			return !found
		})
	if err != nil {
		return 0, fmt.Errorf("read the newest event of %s in %s: %w", aggregateID, r.name(), err)
	}
	return newest, nil
}

// between selects the events from ≤ eventId ≤ to of an aggregate. An array has each of its
// elements as a value, and no event has a list of ids.
func (r *Reader) between(aggregateID any, from, to int64) bson.D {
	return bson.D{
		{Key: r.fields.AggregateID, Value: aggregateID},
		{Key: r.fields.EventID, Value: bson.D{{Key: "$gte", Value: from}, {Key: "$lte", Value: to}, {Key: "$not", Value: bson.D{{Key: "$type", Value: "array"}}}}},
	}
}
