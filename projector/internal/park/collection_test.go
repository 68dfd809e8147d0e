package park_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// collection is a collection of markers in the MongoDB stand-in.
type collection struct {
	*mongotest.Collection
	tb testing.TB
}

// newCollection makes an empty collection.
func newCollection(tb testing.TB) *collection {
	tb.Helper()
	return &collection{server.Collection(server.Database(tb).Collection("parked")), tb}
}

// of selects the marker of a unit.
func of(u model.Unit) bson.D {
	return bson.D{{Key: "_id", Value: bson.D{{Key: "projection", Value: u.Projection}, {Key: "aggregateId", Value: u.AggregateID}, {Key: "generation", Value: u.Number()}}}}
}

// Marker returns the marker of a unit; nil if there is none.
func (c *collection) Marker(u model.Unit) bson.M {
	c.tb.Helper()
	return c.Stored(c.tb, of(u))
}

// Change sets a field of a marker, as another process would.
func (c *collection) Change(u model.Unit, field string, value any) {
	c.tb.Helper()
	c.Set(c.tb, of(u), bson.D{{Key: field, Value: value}})
}

// Delete deletes a marker, as an operator does.
func (c *collection) Delete(u model.Unit) {
	c.tb.Helper()
	c.Remove(c.tb, of(u))
}
