package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
)

// TestArchivedReadModelsAreNotDropped checks that a promotion waits if it would delete read
// models whose events were archived, until an operator allows it. The new generation may be
// one of the same projection, or of one with another name that takes the collection over.
func TestArchivedReadModelsAreNotDropped(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"visits", "guests"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			p := c.pod(0, visits(t, 1))
			p.deliver(c.store(names(20)...))
			p.stop()
			if _, err := c.database.Collection("events").DeleteMany(t.Context(), bson.D{{Key: "aggregateId", Value: bson.D{{Key: "$in", Value: names(5)}}}}); err != nil {
				t.Fatal(err)
			}
			c.pod(0, counting(t, name, "visits", 2))
			by := catalog.Author{At: time.Now()}
			if name != "visits" {
				if err := c.change(func(e *catalog.Entry) (*catalog.Entry, error) { return catalog.Retire(e, by) }); err != nil {
					t.Fatal(err)
				}
			}
			waits := c.awaitOf(name, "the promotion waits", func(e *catalog.Entry) bool {
				return e.Building != nil && e.Building.State == catalog.Verifying && strings.Contains(e.Building.Reason, "5 read models of collection visits have no events in the event store, such as a-00")
			})
			if want := fmt.Sprintf("projector projections rebuild %s --allow-missing 5", name); !strings.Contains(waits.Building.Reason, want) {
				t.Errorf("the reason is %q, want %q in it", waits.Building.Reason, want)
			}
			c.right(1)
			e := c.entryOf(name)
			next, err := catalog.Allow(e, catalog.Allowed{Archived: 5}, by)
			if err == nil {
				_, err = c.catalog.Write(t.Context(), e, next)
			}
			if err != nil {
				t.Fatal(err)
			}
			c.awaitOf(name, "live", func(e *catalog.Entry) bool {
				return e.Live != nil && e.Live.Collection == "visits" && e.Building == nil
			})
			if n, err := c.database.Collection("visits").CountDocuments(t.Context(), bson.D{{Key: "factor", Value: 2}}); n != 15 || err != nil {
				t.Errorf("%d read models, %v", n, err)
			}
		})
	}
}
