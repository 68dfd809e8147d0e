package app

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/generation"
	"github.com/penstock-cdc/penstock/projector/internal/stores"
)

// A person may take long to confirm a drop. If the projection has become live again under
// the same collection, nothing may be deleted.
func TestDropDeletesNothingOfAProjectionThatHasChanged(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	s := &stores.Stores{ReadModels: db, State: db}
	catalog := generation.NewCatalog(generation.Open(db, generation.CatalogName), "")
	by := generation.Author{At: time.Now()}
	declared := generation.Declared{Name: "visits", Definition: generation.Definition{Hash: "a", Collection: "visits"}}
	write := func(old, changed *generation.Entry) *generation.Entry {
		t.Helper()
		stored, err := catalog.Write(t.Context(), old, changed)
		if err != nil {
			t.Fatal(err)
		}
		return stored
	}
	step := func(e *generation.Entry, err error) *generation.Entry {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	has := func(want bool) {
		t.Helper()
		names, err := db.ListCollectionNames(t.Context(), bson.D{{Key: "name", Value: "visits"}})
		if err != nil || slices.Contains(names, "visits") != want {
			t.Errorf("collections are %v, %v", names, err)
		}
	}
	if _, err := db.Collection("visits").InsertOne(t.Context(), bson.D{{Key: "_id", Value: "a"}, {Key: "lastEventId", Value: int64(1)}}); err != nil {
		t.Fatal(err)
	}
	live := write(nil, generation.Create("p", declared, generation.Found{}, by))
	retired := write(live, step(generation.Retire(live, by)))
	c := &projectionsDropCommand{projectionName: projectionName{Name: "visits"}}
	collections := dropped(retired, map[string]*generation.Entry{"visits": retired})
	uuids, err := uuidsOf(t.Context(), s, collections)
	if err != nil {
		t.Fatal(err)
	}

	again := write(retired, step(generation.Start(retired, "p", declared, 0, by)))
	again = write(again, generation.Promote(again, by))
	if _, err := c.carryOut(t.Context(), s, catalog, retired, collections, uuids); !errors.Is(err, generation.ErrConflict) {
		t.Errorf("the drop ended with %v", err)
	}
	has(true)

	retired = write(again, step(generation.Retire(again, by)))
	counts, err := c.carryOut(t.Context(), s, catalog, retired, collections, uuids)
	if err != nil || counts["collections"] != 1 {
		t.Errorf("the drop ended with %v, %v", counts, err)
	}
	has(false)
	entries, err := catalog.List(t.Context())
	if err != nil || !entries["visits"].Dropped() || len(entries["visits"].Left) > 0 {
		t.Errorf("the entry is %+v, %v", entries["visits"], err)
	}
}

// A promotion renames the collection first and writes the catalog afterwards. In between, a
// collection that the projection used earlier already holds the new generation.
func TestDropKeepsTheCollectionThatIsBeingPromoted(t *testing.T) {
	t.Parallel()
	e := &generation.Entry{
		Name: "visits", Live: &generation.Live{Definition: generation.Definition{Collection: "new"}},
		Building: &generation.Build{Definition: generation.Definition{Collection: "old"}, Shadow: "visits.generation-3"},
		Left:     []generation.Left{{Collection: "old"}, {Collection: "older"}},
	}
	if got := dropped(e, map[string]*generation.Entry{"visits": e}); !slices.Equal(got, []string{"older"}) {
		t.Errorf("dropped are %v", got)
	}
}

// dropOf makes read models of the projection visits, retires it, and makes its drop, as a
// command does before it deletes anything.
func (c *cluster) dropOf() (s *stores.Stores, command *projectionsDropCommand, e *generation.Entry, uuids map[string]bson.Binary) {
	c.t.Helper()
	s = &stores.Stores{ReadModels: c.database, State: c.database}
	p := c.pod(0, visits(c.t, 1))
	p.deliver(c.store(names(20)...))
	p.stop()
	if err := c.change(func(e *generation.Entry) (*generation.Entry, error) {
		return generation.Retire(e, generation.Author{At: time.Now()})
	}); err != nil {
		c.t.Fatal(err)
	}
	e = c.entry()
	uuids, err := uuidsOf(c.t.Context(), s, []string{"visits"})
	if err != nil || len(uuids) != 1 {
		c.t.Fatal(uuids, err)
	}
	return s, &projectionsDropCommand{projectionName: projectionName{Name: "visits"}}, e, uuids
}

// A drop can take long. A projection that takes the collection over waits for its end.
func TestTakeoverWaitsForAnOpenDrop(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s, command, e, uuids := c.dropOf()
	begun := generation.BeginDrop(e, []string{"visits"}, generation.Author{At: time.Now()})
	if _, err := c.catalog.Write(t.Context(), e, begun); err != nil {
		t.Fatal(err)
	}
	c.pod(0, counting(t, "guests", "visits", 3))
	c.awaitOf("guests", "the takeover waits", func(e *generation.Entry) bool {
		return e.Building != nil && strings.Contains(e.Building.Reason, "collection visits is being deleted by")
	})
	if wrong := c.wrong("visits", 1); wrong != "" {
		t.Errorf("before the drop: %s", wrong)
	}
	// The command was interrupted here. Repeated, it ends the drop.
	if _, err := command.carryOut(t.Context(), s, c.catalog, c.entry(), nil, uuids); err != nil {
		t.Fatal(err)
	}
	c.awaitOf("guests", "live", func(e *generation.Entry) bool { return e.Live != nil })
	c.right(3)
}

// If another projection has become live in a collection all the same, the drop leaves it.
func TestDropLeavesTheCollectionOfAnotherProjection(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s, command, e, uuids := c.dropOf()
	c.pod(0, counting(t, "guests", "visits", 3))
	c.awaitOf("guests", "live", func(e *generation.Entry) bool { return e.Live != nil })
	counts, err := command.drop(t.Context(), s, e, uuids)
	if err != nil || counts["collections"] != 0 {
		t.Errorf("dropped %v, %v", counts, err)
	}
	c.right(3)
}

// TestDropKeepsTheDocumentsOfAnApplication checks that a drop does not delete what an
// application has written into the collection of a retired projection.
func TestDropKeepsTheDocumentsOfAnApplication(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s, command, e, uuids := c.dropOf()
	c.write("visits", "one", 2)
	_, err := command.carryOut(t.Context(), s, c.catalog, e, []string{"visits"}, uuids)
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
	if _, err := command.carryOut(t.Context(), s, c.catalog, e, []string{"visits"}, uuids); err != nil {
		t.Errorf("without these documents: %v", err)
	}
}
