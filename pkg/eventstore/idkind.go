package eventstore

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// Only sets the type of the aggregates' ids, as [event.Reader.Only] does.
func (r *Reader) Only(kind event.IDKind) { r.reader.Only(kind) }

// oldestEvents is how many of the oldest events LearnIDs reads to find a readable one.
const oldestEvents = 100

// LearnIDs gives the type of the aggregates' ids: that of the oldest readable event, by _id. From
// then on, events with ids of another type break the contract for this reader. The type is empty
// if the store has no readable event yet.
func (r *Reader) LearnIDs(ctx context.Context) (event.IDKind, error) {
	if kind := r.reader.IDKind(); kind != "" {
		return kind, nil
	}
	oldest := options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(oldestEvents).SetProjection(r.keyProjection())
	err := r.each(ctx, bson.D{}, oldest, func(document bson.Raw) bool {
		ev, err := r.reader.ReadPosition(document)
		if err == nil {
			r.reader.Only(r.reader.KindOf(ev.RawAggregateID))
		}
		return err != nil
	})
	if err != nil {
		return "", fmt.Errorf("read the oldest events of %s: %w", r.name(), err)
	}
	return r.reader.IDKind(), nil
}
