// Package parktest reads and changes markers of parked aggregates, for tests.
package parktest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Key is the _id of a marker.
type Key struct {
	Projection  string `bson:"projection"`
	AggregateID string `bson:"aggregateId"`
	Generation  int64  `bson:"generation,omitempty"`
}

// KeyOf is the key of a unit's marker.
func KeyOf(u model.Unit) Key {
	return Key{Projection: u.Projection, AggregateID: u.AggregateID, Generation: u.Later()}
}

func (k Key) filter() bson.D { return bson.D{{Key: "_id", Value: k}} }

// Collection is a collection of markers in the MongoDB stand-in.
type Collection struct {
	*mongotest.Collection
	tb testing.TB

	mu       sync.Mutex
	requests map[string]int
}

// NewCollection makes an empty collection.
func NewCollection(tb testing.TB, s *mongotest.Server) *Collection {
	tb.Helper()
	c := &Collection{Collection: s.Collection(s.Database(tb).Collection("parked")), tb: tb, requests: make(map[string]int)}
	c.After = func(request string) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests[request]++
		return nil
	}
	return c
}

// Requests counts the answered requests of one name.
func (c *Collection) Requests(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests[name]
}

// Marker returns a marker without its _id; nil if there is none.
func (c *Collection) Marker(key Key) bson.M {
	c.tb.Helper()
	var marker bson.M
	c.do(func(ctx context.Context, markers *mongo.Collection) error {
		err := markers.FindOne(ctx, key.filter(), options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 0}})).Decode(&marker)
		if errors.Is(err, mongo.ErrNoDocuments) {
			return nil
		}
		return err
	})
	return marker
}

// Keys returns the keys of all markers.
func (c *Collection) Keys() []Key {
	c.tb.Helper()
	var found []struct {
		ID Key `bson:"_id"`
	}
	c.do(func(ctx context.Context, markers *mongo.Collection) error {
		cursor, err := markers.Find(ctx, bson.D{})
		if err != nil {
			return err
		}
		return cursor.All(ctx, &found)
	})
	keys := make([]Key, len(found))
	for i := range found {
		keys[i] = found[i].ID
	}
	return keys
}

// Set sets a field of a marker, as another process would.
func (c *Collection) Set(key Key, field string, value any) {
	c.tb.Helper()
	c.do(func(ctx context.Context, markers *mongo.Collection) error {
		_, err := markers.UpdateOne(ctx, key.filter(), bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: value}}}})
		return err
	})
}

// Delete deletes a marker, as an operator does.
func (c *Collection) Delete(key Key) {
	c.tb.Helper()
	c.do(func(ctx context.Context, markers *mongo.Collection) error {
		_, err := markers.DeleteOne(ctx, key.filter())
		return err
	})
}

// do runs a request of the test.
func (c *Collection) do(request func(context.Context, *mongo.Collection) error) {
	c.tb.Helper()
	if err := c.Direct(request); err != nil {
		c.tb.Error(err)
	}
}
