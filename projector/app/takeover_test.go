package app

import (
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// write stores documents that no projector writes.
func (c *cluster) write(collection string, ids ...any) {
	c.t.Helper()
	for _, id := range ids {
		if _, err := c.database.Collection(collection).InsertOne(c.t.Context(), bson.D{{Key: "_id", Value: id}, {Key: "owner", Value: "application"}}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// left counts the documents that no projector has written.
func (c *cluster) left(collection string) int64 {
	c.t.Helper()
	n, err := c.database.Collection(collection).CountDocuments(c.t.Context(), bson.D{{Key: "owner", Value: "application"}})
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// loseState deletes the collections of the state.
func (c *cluster) loseState() {
	c.t.Helper()
	for _, lost := range []string{"projections", "projectors", "jobs", "job_ranges", "parked"} {
		if err := c.database.Collection(lost).Drop(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestCollectionOfAnApplicationIsRefused checks that a projection neither adopts nor
// replaces a collection in which an application keeps documents of its own, whether the
// event store has events or not.
func TestCollectionOfAnApplicationIsRefused(t *testing.T) {
	t.Parallel()
	for _, events := range []int{0, 20} {
		c := newCluster(t)
		if events > 0 {
			c.store(names(events)...)
		}
		c.write("visits", "one", 2, bson.NewObjectID(), "four", 5.5)
		_, err := c.tryPod(0, visits(t, 1))
		if !errors.Is(err, readmodel.ErrLayout) || !strings.Contains(err.Error(), "visits has 5 documents that no projector has written") {
			t.Errorf("with %d events: %v", events, err)
		}
		if e := c.entry(); e != nil {
			t.Errorf("with %d events the catalog has %+v", events, e)
		}
		if n := c.left("visits"); n != 5 {
			t.Errorf("with %d events, %d documents of the application are left", events, n)
		}
	}
}

// TestPromotionKeepsTheDocumentsOfAnApplication checks that a rebuild does not drop
// documents that an application has written into the read model's collection later. The
// promotion waits and says so, and continues when they are gone.
func TestPromotionKeepsTheDocumentsOfAnApplication(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := c.pod(0, visits(t, 1))
	p.deliver(c.store(names(20)...))
	c.write("visits", "one", 2)
	p.stop()
	c.pod(0, visits(t, 2))
	c.await("the promotion waits", func(e *catalog.Entry) bool {
		return e.Building != nil && e.Building.State == catalog.Verifying && strings.Contains(e.Building.Reason, "visits has 2 documents that no projector has written")
	})
	if n := c.left("visits"); n != 2 {
		t.Errorf("%d documents of the application are left", n)
	}
}

// TestReadModelsAreBuiltAnewAfterTheLossOfTheState checks that the read models of a lost catalog stay
// until a generation with a higher number has replaced them.
func TestReadModelsAreBuiltAnewAfterTheLossOfTheState(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := c.pod(0, visits(t, 1))
	p.deliver(c.store(names(20)...))
	for factor := 2; factor <= 3; factor++ {
		p.stop()
		p = c.pod(0, visits(t, factor))
		c.live(int64(factor))
	}
	before := c.entry()
	p.stop()
	c.loseState()
	p = c.pod(0, visits(t, 3))
	c.live(1)
	if e := c.entry(); e.Live.Generation <= before.Live.Generation {
		t.Errorf("generation %d follows generation %d", e.Live.Generation, before.Live.Generation)
	}
	p.deliver(c.store(append(names(20), "new")...))
	c.right(3)
}
