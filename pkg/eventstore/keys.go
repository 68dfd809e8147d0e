package eventstore

import (
	"bytes"
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// Key names one event.
type Key struct {
	// AggregateID has its type in the store.
	AggregateID bson.RawValue
	EventID     int64
}

// Documents reads the events with these keys, which may repeat. The result has their order;
// a document that the store does not have is nil. The read sees every event up to the cluster
// time since, and every event that a cursor of the reader has given. The caller bounds the
// number and the size of the events.
func (r *Reader) Documents(ctx context.Context, keys []Key, since bson.Timestamp) ([]bson.Raw, error) {
	session, err := r.events.Database().Client().StartSession()
	if err != nil {
		return nil, fmt.Errorf("start session: %w", err)
	}
	defer session.EndSession(context.WithoutCancel(ctx))
	if scanned := r.scanned.Load(); scanned != nil && since.Before(*scanned) {
		since = *scanned
	}
	if !since.IsZero() {
		if err := session.AdvanceOperationTime(&since); err != nil {
			return nil, fmt.Errorf("advance session: %w", err)
		}
	}
	cursor, err := r.events.Find(mongo.NewSessionContext(ctx, session), r.anyOf(keys))
	if err != nil {
		return nil, fmt.Errorf("read %d events of %s: %w", len(keys), r.name(), err)
	}
	defer func() { _ = mongox.CloseCursor(ctx, cursor) }()
	stored := make(map[plainKey]bson.Raw, len(keys))
	for _, key := range keys {
		stored[plain(key)] = nil
	}
	for cursor.Next(ctx) {
		// A collation of the collection can match other aggregates, too.
		found, err := r.reader.ReadPosition(cursor.Current)
		if err != nil {
			continue
		}
		key := plain(Key{AggregateID: found.RawAggregateID, EventID: found.EventID})
		if _, ok := stored[key]; ok {
			stored[key] = bytes.Clone(cursor.Current)
		}
	}
	if err := cursor.Err(); err != nil {
		return nil, fmt.Errorf("read %d events of %s: %w", len(keys), r.name(), err)
	}
	documents := make([]bson.Raw, len(keys))
	for i, key := range keys {
		documents[i] = stored[plain(key)]
	}
	return documents, nil
}

// anyOf is a filter with one range of the index for each run of keys of one aggregate.
func (r *Reader) anyOf(keys []Key) bson.D {
	var runs bson.A
	for len(keys) > 0 {
		n := 1
		for n < len(keys) && keys[n].AggregateID.Equal(keys[0].AggregateID) {
			n++
		}
		ids := make(bson.A, n)
		for i := range n {
			ids[i] = keys[i].EventID
		}
		runs = append(runs, bson.D{
			{Key: r.fields.AggregateID, Value: keys[0].AggregateID},
			{Key: r.fields.EventID, Value: bson.D{{Key: "$in", Value: ids}}},
		})
		keys = keys[n:]
	}
	if len(runs) == 1 {
		return runs[0].(bson.D)
	}
	return bson.D{{Key: "$or", Value: runs}}
}

// plainKey is a Key that can be compared.
type plainKey struct {
	kind      bson.Type
	aggregate string
	event     int64
}

func plain(k Key) plainKey {
	return plainKey{kind: k.AggregateID.Type, aggregate: string(k.AggregateID.Value), event: k.EventID}
}
