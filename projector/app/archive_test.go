package app

import (
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
)

// TestArchivedReadModelsAreNotDropped checks that a promotion waits if it would delete read
// models whose events were archived, until an operator allows it.
func TestArchivedReadModelsAreNotDropped(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := c.pod(0, visits(t, 1))
	p.deliver(c.store(names(20)...))
	p.stop()
	if _, err := c.database.Collection("events").DeleteMany(t.Context(), bson.D{{Key: "aggregateId", Value: bson.D{{Key: "$in", Value: names(5)}}}}); err != nil {
		t.Fatal(err)
	}
	c.pod(0, visits(t, 2))
	waits := c.await("the promotion waits", func(e *catalog.Entry) bool {
		return e.Building != nil && e.Building.State == catalog.Verifying && strings.Contains(e.Building.Reason, "5 read models of collection visits have no events in the event store, such as a-00")
	})
	if want := "projector projections rebuild visits --allow-missing 5"; !strings.Contains(waits.Building.Reason, want) {
		t.Errorf("the reason is %q, want %q in it", waits.Building.Reason, want)
	}
	c.right(1)
	if err := c.change(func(e *catalog.Entry) (*catalog.Entry, error) {
		return catalog.Allow(e, catalog.Allowed{Archived: 5}, catalog.Author{At: time.Now()})
	}); err != nil {
		t.Fatal(err)
	}
	c.live(2)
	if n, err := c.database.Collection("visits").CountDocuments(t.Context(), bson.D{{Key: "factor", Value: 2}}); n != 15 || err != nil {
		t.Errorf("%d read models, %v", n, err)
	}
}
