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

// ErrFirstID says that the events of each aggregate are numbered from another id than configured.
var ErrFirstID = errors.New("event ids begin elsewhere")

// endAggregates is how many aggregates CheckFirstID looks at, at each end of the index.
const endAggregates = 3

// CheckFirstID fails with [ErrFirstID] if most of some aggregates at both ends of the index begin at
// 0 although [event.Fields.FirstEventID] is 1. A single aggregate that begins at 0 is a mistake that
// does not concern the others. CheckFirstID checks nothing if the first id is 0, because the events
// before an event 1 can be archived, or if the index is missing.
func (r *Reader) CheckFirstID(ctx context.Context) error {
	if r.fields.FirstEventID == 0 {
		return nil
	}
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
	// An id of another type is a mistake, and can be an end of the index.
	types, known := map[event.IDKind]any{event.IDString: "string", event.IDObjectID: "objectId", event.IDUUID: "binData", event.IDInteger: "number"}[kind]
	if !known {
		types = bson.A{"string", "objectId", "binData", "number"}
	}
	opts := options.FindOne().SetHint(index).SetProjection(r.keyProjection())
	elsewhere, counted := 0, map[string]bool{}
	for order, next := range map[int]string{1: "$gt", -1: "$lt"} {
		ids := bson.D{{Key: "$type", Value: types}}
		for range endAggregates {
			end, err := r.events.FindOne(ctx, bson.D{{Key: r.fields.AggregateID, Value: ids}}, opts, options.FindOne().SetSort(bson.D{{Key: r.fields.AggregateID, Value: order}, {Key: r.fields.EventID, Value: order}})).Raw()
			aggregate := end.Lookup(r.fields.AggregateID)
			if errors.Is(err, mongo.ErrNoDocuments) || counted[aggregate.String()] {
				break
			}
			var first bson.Raw
			if err == nil {
				counted[aggregate.String()] = true
				ids = bson.D{{Key: "$type", Value: types}, {Key: next, Value: aggregate}}
				begin := bson.D{{Key: r.fields.AggregateID, Value: aggregate}, {Key: r.fields.EventID, Value: bson.D{{Key: "$in", Value: bson.A{0, 1}}}}}
				first, err = r.events.FindOne(ctx, begin, opts, options.FindOne().SetSort(bson.D{{Key: r.fields.EventID, Value: 1}})).Raw()
			}
			id, readable := first.Lookup(r.fields.EventID).AsInt64OK()
			switch {
			case err != nil && !errors.Is(err, mongo.ErrNoDocuments):
				return fmt.Errorf("look for the first events in %s: %w", r.name(), err)
			case !readable: // it begins neither at 0 nor at 1
			case id == 0:
				elsewhere++
			default:
				elsewhere--
			}
		}
	}
	if elsewhere <= 0 {
		return nil
	}
	return fmt.Errorf("%s: %w: set PENSTOCK_FIRST_EVENT_ID to 0 for the publisher and the projector, because the events of each aggregate are numbered from 0", r.name(), ErrFirstID)
}
