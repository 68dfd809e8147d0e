package app

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
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

// index creates an ascending index of one field of visits.
func (c *cluster) index(name, field string, o *options.IndexOptionsBuilder) {
	c.t.Helper()
	if _, err := c.database.Collection("visits").Indexes().CreateOne(c.t.Context(), mongo.IndexModel{Keys: bson.D{{Key: field, Value: 1}}, Options: o.SetName(name)}); err != nil {
		c.t.Fatal(err)
	}
}

// building waits until the next generation is being built.
func (c *cluster) building() {
	c.t.Helper()
	c.await("the next generation being built", func(e *catalog.Entry) bool { return e.Building != nil && e.Building.Jobs.Build != "" })
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
	c.index("dropped", "a", options.Index())
	c.index("changed", "b", options.Index())
	c.pod(20, visits(t, 2))
	c.building()
	for _, name := range []string{"dropped", "changed"} {
		if err := c.database.Collection("visits").Indexes().DropOne(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	c.index("changed", "b", options.Index().SetSparse(true))
	c.index("created", "n", options.Index())
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

// TestPromotionWaitsIfItsIndexesCannotBeCopied checks that indexes that are created during
// a build prevent the promotion, with the reason in the catalog, if read models would
// expire by them or cannot be indexed. When they are dropped, the promotion goes on.
func TestPromotionWaitsIfItsIndexesCannotBeCopied(t *testing.T) {
	t.Parallel()
	for reason, o := range map[string]*options.IndexOptionsBuilder{
		"visits has a TTL (its index hostile)":    options.Index().SetExpireAfterSeconds(3600),
		"create the indexes of collection visits": options.Index().SetUnique(true).SetPartialFilterExpression(bson.D{{Key: "factor", Value: 2}}),
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			p := c.pod(0, visits(t, 1))
			p.deliver(c.store(names(40)...))
			p.stop()
			c.pod(20, visits(t, 2))
			c.building()
			c.index("hostile", "factor", o)
			c.await("the promotion waits", func(e *catalog.Entry) bool {
				return e.Building != nil && e.Building.State == catalog.Verifying && strings.Contains(e.Building.Reason, reason)
			})
			c.right(1)
			if err := c.database.Collection("visits").Indexes().DropOne(t.Context(), "hostile"); err != nil {
				t.Fatal(err)
			}
			c.live(2)
			c.right(2)
			if got := c.layout("visits"); len(got) != 2 {
				t.Errorf("the layout is %v", got)
			}
		})
	}
}

// TestProjectionLeavesACollectionWithACollation checks the way out for a projection whose
// collection ignores the case: another collection.
func TestProjectionLeavesACollectionWithACollation(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	if err := c.database.CreateCollection(t.Context(), "visits", options.CreateCollection().SetCollation(&options.Collation{Locale: "en", Strength: 2})); err != nil {
		t.Fatal(err)
	}
	if err := readmodel.CheckLayout(t.Context(), c.database, []string{"visits"}); !errors.Is(err, readmodel.ErrLayout) {
		t.Errorf("the check of the layout says %v", err)
	}
	p := c.pod(0, visits(t, 1))
	p.deliver(c.store("a", "b"))
	p.stop()
	p = c.pod(0, visitsIn(t, "exactVisits", 2))
	c.live(2)
	p.deliver(c.store("A", "B"))
	if wrong := c.wrong("exactVisits", 2); wrong != "" {
		t.Error(wrong)
	}
}
