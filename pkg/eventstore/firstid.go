package eventstore

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// ErrFirstID says that the events of each aggregate are numbered from 0. Event 0 breaks the
// contract, and the fold of the others would look complete without it.
var ErrFirstID = errors.New("event ids begin at 0 in this event store, and Penstock reads ids from 1, so every read model would lack its first event; let the writer store a number that begins at 1, also in the events that exist, and set PENSTOCK_FIELD_EVENT_ID to its field")

// CheckFirstID fails with [ErrFirstID] if the first and the last aggregate of the index both have
// an event 0. A single event 0 is a mistake of one aggregate, which does not concern the others.
// CheckFirstID checks nothing if the index is missing.
func (r *Reader) CheckFirstID(ctx context.Context) error {
	index, exists, err := r.index(ctx)
	if errors.Is(err, ErrIndex) || err == nil && !exists {
		return nil
	}
	if err != nil {
		return err
	}
	kind, err := r.LearnIDs(ctx)
	if err != nil {
		return err
	}
	// An id of another type is a mistake, and would be an end of the index.
	types, known := map[event.IDKind]any{event.IDString: "string", event.IDObjectID: "objectId", event.IDUUID: "binData", event.IDInteger: "number"}[kind]
	if !known {
		types = bson.A{"string", "objectId", "binData", "number"}
	}
	ids := bson.D{{Key: r.fields.AggregateID, Value: bson.D{{Key: "$type", Value: types}}}}
	for _, order := range []int{1, -1} {
		opts := options.FindOne().SetHint(index).SetProjection(r.keyProjection())
		end, err := r.events.FindOne(ctx, ids, opts, options.FindOne().SetSort(bson.D{{Key: r.fields.AggregateID, Value: order}, {Key: r.fields.EventID, Value: order}})).Raw()
		if err == nil {
			zero := bson.D{{Key: r.fields.AggregateID, Value: end.Lookup(r.fields.AggregateID)}, {Key: r.fields.EventID, Value: 0}}
			err = r.events.FindOne(ctx, zero, opts).Err()
		}
		if errors.Is(err, mongo.ErrNoDocuments) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for event 0 in %s: %w", r.name(), err)
		}
	}
	return fmt.Errorf("%s: %w", r.name(), ErrFirstID)
}
