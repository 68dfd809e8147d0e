package eventstore

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// First reads the first readable event of the aggregate of ev; nil if there is none. Events that
// break the contract do not count: they are in the quarantine. The error is MongoDB's.
func (r *Reader) First(ctx context.Context, ev *event.Event) (*event.Event, error) {
	var first *event.Event
	err := r.each(ctx, r.between(ev.RawAggregateID, r.fields.FirstEventID, math.MaxInt64),
		options.Find().SetSort(bson.D{{Key: r.fields.EventID, Value: 1}}).SetBatchSize(1), func(document bson.Raw) bool {
			// A collation of the collection matches other aggregates, too.
			if found, err := r.Read(bytes.Clone(document)); err == nil && found.AggregateID == ev.AggregateID {
				first = &found
			}
			return first == nil
		})
	if err != nil {
		return nil, fmt.Errorf("read the first event of aggregate %q: %w", ev.AggregateID, err)
	}
	return first, nil
}
