package app

import (
	"fmt"
	"reflect"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/projector/internal/generation"
)

// layout returns the indexes and the options of a collection.
func (c *cluster) layout(collection string) map[string]bson.M {
	c.t.Helper()
	var indexes []bson.M
	cursor, err := c.database.Collection(collection).Indexes().List(c.t.Context())
	if err == nil {
		err = cursor.All(c.t.Context(), &indexes)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	specifications, err := c.database.ListCollectionSpecifications(c.t.Context(), bson.D{{Key: "name", Value: collection}})
	if err != nil || len(specifications) != 1 {
		c.t.Fatalf("collection %s is %v: %v", collection, specifications, err)
	}
	var set bson.M
	if err := bson.Unmarshal(specifications[0].Options, &set); err != nil {
		c.t.Fatal(err)
	}
	layout := map[string]bson.M{"options": set}
	for _, index := range indexes {
		delete(index, "ns")
		layout[fmt.Sprint("index ", index["name"])] = index
	}
	return layout
}

// TestLayoutChangedDuringABuildSurvivesThePromotion checks that indexes that are created,
// changed and dropped on the live collection during a build, and a changed validator, are
// those of the new collection too.
func TestLayoutChangedDuringABuildSurvivesThePromotion(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := c.pod(0, visits(t, 1))
	p.deliver(c.store(names(40)...))
	p.stop()
	live := c.database.Collection("visits")
	index := func(name string, field string, o *options.IndexOptionsBuilder) {
		t.Helper()
		if _, err := live.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: field, Value: 1}}, Options: o.SetName(name)}); err != nil {
			t.Fatal(err)
		}
	}
	index("dropped", "a", options.Index())
	index("changed", "b", options.Index())
	c.pod(20, visits(t, 2))
	c.await("generation 2 being built", func(e *generation.Entry) bool { return e.Building != nil && e.Building.Jobs.Build != "" })
	for _, name := range []string{"dropped", "changed"} {
		if err := live.Indexes().DropOne(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	index("changed", "b", options.Index().SetSparse(true))
	index("created", "n", options.Index())
	if err := c.database.RunCommand(t.Context(), bson.D{
		{Key: "collMod", Value: "visits"}, {Key: "validator", Value: bson.D{{Key: "n", Value: bson.D{{Key: "$gt", Value: 0}}}}}, {Key: "validationAction", Value: "warn"},
	}).Err(); err != nil {
		t.Fatal(err)
	}
	want := c.layout("visits")
	c.live(2)
	if got := c.layout("visits"); len(want) != 4 || !reflect.DeepEqual(got, want) {
		t.Errorf("after the promotion the layout is %v, want %v", got, want)
	}
	c.right(2)
}
