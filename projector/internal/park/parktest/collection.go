// Package parktest reads and changes markers of parked aggregates, for tests.
package parktest

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Collection is a collection of markers in the MongoDB stand-in.
type Collection struct {
	*mongotest.Collection
	tb testing.TB
}

// NewCollection makes an empty collection.
func NewCollection(tb testing.TB, s *mongotest.Server) *Collection {
	tb.Helper()
	return &Collection{s.Collection(s.Database(tb).Collection("parked")), tb}
}

// of selects the marker of a unit.
func of(u model.Unit) bson.D {
	id := bson.D{{Key: "projection", Value: u.Projection}, {Key: "aggregateId", Value: u.AggregateID}}
	if u.Later() > 0 {
		id = append(id, bson.E{Key: "generation", Value: u.Later()})
	}
	return bson.D{{Key: "_id", Value: id}}
}

// Marker returns the marker of a unit; nil if there is none.
func (c *Collection) Marker(u model.Unit) bson.M {
	c.tb.Helper()
	return c.Stored(c.tb, of(u))
}

// Change sets a field of a marker, as another process would.
func (c *Collection) Change(u model.Unit, field string, value any) {
	c.tb.Helper()
	c.Set(c.tb, of(u), bson.D{{Key: field, Value: value}})
}

// Delete deletes a marker, as an operator does.
func (c *Collection) Delete(u model.Unit) {
	c.tb.Helper()
	c.Remove(c.tb, of(u))
}
