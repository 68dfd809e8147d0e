package ownership_test

import (
	"bytes"
	"context"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/projector/internal/ownership"
)

// collection is an ownership.Collection in memory: equality filters and $set on top-level
// fields.
type collection struct {
	mu        sync.Mutex
	documents map[string]bson.Raw
}

var _ ownership.Collection = (*collection)(nil)

func raw(v any) bson.Raw {
	doc, err := bson.Marshal(v)
	if err != nil {
		panic(err)
	}
	return doc
}

func idOf(v any) string { return raw(v).Lookup("_id").StringValue() }

func (c *collection) FindOne(_ context.Context, filter any, _ ...options.Lister[options.FindOneOptions]) *mongo.SingleResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.documents[idOf(filter)]
	if !ok {
		return mongo.NewSingleResultFromDocument(bson.D{}, mongo.ErrNoDocuments, nil)
	}
	return mongo.NewSingleResultFromDocument(found, nil, nil)
}

func (c *collection) InsertOne(_ context.Context, document any, _ ...options.Lister[options.InsertOneOptions]) (*mongo.InsertOneResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := idOf(document)
	if _, taken := c.documents[id]; taken {
		return nil, mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 11000}}}
	}
	c.documents[id] = raw(document)
	return &mongo.InsertOneResult{InsertedID: id}, nil
}

func (c *collection) UpdateOne(_ context.Context, filter, update any, _ ...options.Lister[options.UpdateOneOptions]) (*mongo.UpdateResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := idOf(filter)
	document, ok := c.documents[id]
	want := raw(filter).Lookup("owner")
	if have := document.Lookup("owner"); !ok || !bytes.Equal(have.Value, want.Value) {
		return &mongo.UpdateResult{}, nil
	}
	updated := bson.D{{Key: "_id", Value: id}}
	elements, err := raw(update).Lookup("$set").Document().Elements()
	if err != nil {
		return nil, err
	}
	for _, e := range elements {
		updated = append(updated, bson.E{Key: e.Key(), Value: e.Value()})
	}
	c.documents[id] = raw(updated)
	return &mongo.UpdateResult{MatchedCount: 1, ModifiedCount: 1}, nil
}
