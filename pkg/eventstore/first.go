package eventstore

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// First reads the first readable event of the aggregate of ev; nil if there is none. Events that
// break the contract do not count: they are in the quarantine. The error is MongoDB's.
func (r *Reader) First(ctx context.Context, ev *event.Event) (*event.Event, error) {
	explain := func(err error) error {
		return fmt.Errorf("read the first event of aggregate %q: %w", ev.AggregateID, err)
	}
	cursor, err := r.events.Find(ctx, r.between(ev.RawAggregateID, r.fields.FirstEventID, math.MaxInt64),
		options.Find().SetSort(bson.D{{Key: r.fields.EventID, Value: 1}}).SetBatchSize(1))
	if err != nil {
		return nil, explain(err)
	}
	defer func() { _ = mongox.CloseCursor(ctx, cursor) }()
	for cursor.Next(ctx) {
		// A collation of the collection matches other aggregates, too.
		if found, err := r.Read(bytes.Clone(cursor.Current)); err == nil && found.AggregateID == ev.AggregateID {
			return &found, nil
		}
	}
	if err := cursor.Err(); err != nil {
		return nil, explain(err)
	}
	return nil, nil
}
