package eventstore

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// Sample calls visit for the n oldest events by _id and then for the n newest that are not
// among them. The bytes of an event are valid only during its visit. broken is why a document
// breaks the contract.
func (r *Reader) Sample(ctx context.Context, n int, visit func(ev *event.Event, broken error)) error {
	last, err := r.visit(ctx, bson.D{}, 1, n, visit)
	if err == nil && len(last.Value) > 0 {
		_, err = r.visit(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: last}}}}, -1, n, visit)
	}
	return err
}

// visit reads n events in the order of their _id and gives the last _id.
func (r *Reader) visit(ctx context.Context, filter bson.D, order, n int, visit func(*event.Event, error)) (last bson.RawValue, err error) {
	err = r.each(ctx, filter, options.Find().SetSort(bson.D{{Key: "_id", Value: order}}).SetLimit(int64(n)), func(document bson.Raw) bool {
		id := document.Lookup("_id")
		last = bson.RawValue{Type: id.Type, Value: append([]byte(nil), id.Value...)}
		ev, broken := r.reader.Read(document)
		visit(&ev, broken)
		return true
	})
	if err != nil {
		err = fmt.Errorf("read events: %w", err)
	}
	return last, err
}

// TypeCount is the number of events of an event type and an aggregate type, which may be empty.
type TypeCount struct {
	Types struct {
		EventType     string `bson:"event"`
		AggregateType string `bson:"aggregate"`
	} `bson:"_id"`
	Events int64 `bson:"events"`
}

// Types counts the n newest events by _id by their types. The server reads those events only. Types
// that are not texts, which break the contract, are left out.
func (r *Reader) Types(ctx context.Context, n int) ([]TypeCount, error) {
	event, aggregate, text := r.fields.EventType, r.fields.AggregateType, bson.D{{Key: "$type", Value: "string"}}
	counts, err := mongox.All[TypeCount](ctx, r.events)(r.events.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$sort", Value: bson.D{{Key: "_id", Value: -1}}}}, {{Key: "$limit", Value: n}},
		{{Key: "$match", Value: bson.D{{Key: event, Value: text}, {Key: "$or", Value: bson.A{
			bson.D{{Key: aggregate, Value: text}}, bson.D{{Key: aggregate, Value: nil}},
		}}}}},
		{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: bson.D{{Key: "event", Value: "$" + event}, {Key: "aggregate", Value: "$" + aggregate}}},
			{Key: "events", Value: bson.D{{Key: "$sum", Value: 1}}},
		}}},
	}))
	if err != nil {
		return nil, fmt.Errorf("count the newest events of %s by their types: %w", r.name(), err)
	}
	return counts, nil
}
