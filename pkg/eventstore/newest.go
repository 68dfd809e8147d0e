package eventstore

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Newest gives the highest event id of an aggregate; 0 if the store has no event of it. It
// reads one index key for each type that the canonical id can have in the store. The error
// is MongoDB's.
func (r *Reader) Newest(ctx context.Context, aggregateID string) (int64, error) {
	var newest int64
	for _, id := range appendForms(nil, aggregateID) {
		document, err := r.events.FindOne(ctx, bson.D{{Key: r.fields.AggregateID, Value: id}}, options.FindOne().
			SetSort(bson.D{{Key: r.fields.EventID, Value: -1}}).SetProjection(r.keyProjection())).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("read the newest event of %s in %s: %w", aggregateID, r.name(), err)
		}
		if ev, err := r.reader.ReadPosition(document); err == nil {
			newest = max(newest, ev.EventID)
		}
	}
	return newest, nil
}
