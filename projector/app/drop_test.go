package app

import (
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
)

// dropOf makes read models of the projection visits, retires it, and makes its drop, as a
// command does before it deletes anything.
func (c *cluster) dropOf() *operate.Drop {
	c.t.Helper()
	p := c.pod(0, visits(c.t, 1))
	p.deliver(c.store(names(20)...))
	p.stop()
	if err := c.change(func(e *catalog.Entry) (*catalog.Entry, error) {
		return catalog.Retire(e, catalog.Author{At: time.Now()})
	}); err != nil {
		c.t.Fatal(err)
	}
	return c.drop(c.entry())
}

// drop makes the drop of the collection visits.
func (c *cluster) drop(e *catalog.Entry) *operate.Drop {
	c.t.Helper()
	d, err := operate.NewDrop(c.t.Context(), &config.Stores{ReadModels: c.database, State: c.database}, c.catalog, e, []string{"visits"})
	if err != nil {
		c.t.Fatal(err)
	}
	return d
}

// TestDropKeepsTheDocumentsOfAnApplication checks that a drop does not delete what an
// application has written into the collection of a retired projection.
func TestDropKeepsTheDocumentsOfAnApplication(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	drop := c.dropOf()
	c.write("visits", "one", 2)
	_, err := drop.Run(t.Context(), catalog.Author{At: time.Now()})
	if err == nil || !strings.Contains(err.Error(), "visits has 2 documents that no projector has written, such as the one with _id \"one\": nothing is deleted") {
		t.Errorf("error %v", err)
	}
	if n := c.left("visits"); n != 2 {
		t.Errorf("%d documents of the application are left", n)
	}
	if e := c.entry(); len(e.Dropping) > 0 || e.Dropped() {
		t.Errorf("the catalog has %+v", e)
	}
	if _, err := c.database.Collection("visits").DeleteMany(t.Context(), bson.D{{Key: "owner", Value: "application"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := drop.Run(t.Context(), catalog.Author{At: time.Now()}); err != nil {
		t.Errorf("without these documents: %v", err)
	}
}
