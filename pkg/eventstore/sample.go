package eventstore

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// Sample calls visit for the n oldest events by _id and then for the n newest that are not
// among them. The bytes of an event are valid only during its visit. broken counts the
// documents that break the contract, which are not visited.
func (r *Reader) Sample(ctx context.Context, n int, visit func(*event.Event)) (broken int, err error) {
	last, broken, err := r.visit(ctx, bson.D{}, 1, n, visit)
	if err != nil || len(last.Value) == 0 {
		return broken, err
	}
	_, more, err := r.visit(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: last}}}}, -1, n, visit)
	return broken + more, err
}

// visit reads n events in the order of their _id and gives the last _id.
func (r *Reader) visit(ctx context.Context, filter bson.D, order, n int, visit func(*event.Event)) (last bson.RawValue, broken int, err error) {
	cursor, err := r.events.Find(ctx, filter, options.Find().SetSort(bson.D{{Key: "_id", Value: order}}).SetLimit(int64(n)))
	if err != nil {
		return last, 0, fmt.Errorf("find events: %w", err)
	}
	defer func() { _ = mongox.CloseCursor(ctx, cursor) }()
	for cursor.Next(ctx) {
		id := cursor.Current.Lookup("_id")
		last = bson.RawValue{Type: id.Type, Value: append([]byte(nil), id.Value...)}
		ev, err := r.reader.Read(cursor.Current)
		if err != nil {
			broken++
			continue
		}
		visit(&ev)
	}
	if err := cursor.Err(); err != nil {
		return last, broken, fmt.Errorf("read events: %w", err)
	}
	return last, broken, nil
}
