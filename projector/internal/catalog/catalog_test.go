package catalog_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
)

// stored returns a catalog with the entry users.
func stored(t *testing.T) (*catalog.Catalog, *catalog.Entry) {
	t.Helper()
	c := catalog.NewCatalog(mongox.Durable(server.Database(t), catalog.CatalogName), "p")
	e, err := c.Write(t.Context(), nil, live("a"))
	if err != nil {
		t.Fatal(err)
	}
	return c, e
}

// read returns the stored entry users.
func read(t *testing.T, c *catalog.Catalog) *catalog.Entry {
	t.Helper()
	entries, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return entries["users"]
}

func TestCatalogKeepsEveryField(t *testing.T) {
	t.Parallel()
	c, e := stored(t)
	full := start(t, catalog.Promote(start(t, e, "b"), by), "c")
	full.Building.UUID = bson.Binary{Subtype: 4, Data: []byte("0123456789abcdef")}
	full.Building.Jobs = catalog.JobIDs{Build: "x", Sweep: "y", Verify: "z"}
	full.Building.Reason, full.Building.Pause, full.Building.Round, full.Building.Parked, full.Building.Archived = "because", "token", 2, 3, 4
	full.Building.Allowed = catalog.Allowed{Parked: 5, Archived: 6}
	at := by.At
	full.RetiredAt, full.Garbage[0].Removed = &at, &at
	full.GivenUp = &catalog.GivenUp{Hash: "d", At: at, Who: "ada", Why: "wrong"}
	full.Left = []catalog.Left{{Collection: "left", Generation: 1, Since: at}}
	written, err := c.Write(t.Context(), e, full)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, c); !reflect.DeepEqual(got, written) || got.Revision != 2 {
		t.Errorf("read\n%+v, written\n%+v", got, written)
	}
	if _, err := c.Write(t.Context(), written, e); err != nil {
		t.Fatal(err)
	}
	if got := read(t, c); got.Building != nil || got.RetiredAt != nil || got.GivenUp != nil || got.Left != nil || got.Garbage != nil {
		t.Errorf("fields that the change removed are there: %+v", got)
	}
}

func TestOnlyOneOfTwoChangesIsWritten(t *testing.T) {
	t.Parallel()
	c, e := stored(t)
	if _, err := c.Write(t.Context(), nil, live("b")); !errors.Is(err, catalog.ErrConflict) {
		t.Errorf("created twice: %v", err)
	}
	if _, err := c.Write(t.Context(), e, start(t, e, "b")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(t.Context(), e, start(t, e, "c")); !errors.Is(err, catalog.ErrConflict) {
		t.Errorf("changed twice from one revision: %v", err)
	}
	if err := c.Remove(t.Context(), e); !errors.Is(err, catalog.ErrConflict) {
		t.Errorf("removed from an old revision: %v", err)
	}
	if got := read(t, c); got.Building.Hash != "b" || got.Revision != 2 {
		t.Errorf("stored is %s", say(got))
	}
	if err := c.Remove(t.Context(), read(t, c)); err != nil || read(t, c) != nil {
		t.Errorf("not removed: %v", err)
	}
}

func TestPipelinesDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	one := catalog.NewCatalog(mongox.Durable(db, catalog.CatalogName), "p")
	two := catalog.NewCatalog(mongox.Durable(db, catalog.CatalogName), "q")
	if _, err := one.Write(t.Context(), nil, live("a")); err != nil {
		t.Fatal(err)
	}
	if read(t, two) != nil {
		t.Error("another pipeline's projection is listed")
	}
	if err := two.Adopt(t.Context(), []string{"users", "none"}); err != nil {
		t.Fatal(err)
	}
	if read(t, two) == nil || read(t, one) != nil {
		t.Error("the entry users is not in the adopting pipeline, or still in the other one")
	}
}

func TestUnreadableEntryIsNamed(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	if _, err := db.Collection(catalog.CatalogName).InsertOne(t.Context(), bson.D{{Key: "_id", Value: "other"}, {Key: "pipeline", Value: "q"}, {Key: "revision", Value: "x"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := catalog.NewCatalog(mongox.Durable(db, catalog.CatalogName), "p").List(t.Context()); err != nil {
		t.Errorf("another pipeline: %v", err)
	}
	_, err := catalog.NewCatalog(mongox.Durable(db, catalog.CatalogName), "q").List(t.Context())
	if err == nil || !strings.Contains(err.Error(), `_id "other" of collection projections cannot be read`) {
		t.Errorf("its pipeline: %v", err)
	}
}

// A coordinator that was stopped for longer than its lease can change nothing. Renewing a
// lease does not conflict with writers of the entry.
func TestLateCoordinatorWritesNothing(t *testing.T) {
	t.Parallel()
	c, e := stored(t)
	first, err := c.Coordinate(t.Context(), "users", "$pod-1", time.Hour)
	if err != nil || first.Coordinator.Epoch != 1 || first.Coordinator.Pod != "$pod-1" || first.Revision != e.Revision {
		t.Fatalf("coordinator is %+v: %v", first, err)
	}
	if _, err := c.Coordinate(t.Context(), "users", "pod-2", time.Hour); !errors.Is(err, catalog.ErrNotCoordinator) {
		t.Errorf("a second coordinator: %v", err)
	}
	changed, err := c.WriteAs(t.Context(), 1, first, start(t, first, "b"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Renew(t.Context(), "users", 1, time.Hour); err != nil {
		t.Error(err)
	}
	if got := read(t, c); got.Coordinator.Until.Before(first.Coordinator.Until) || got.Coordinator.Epoch != 1 {
		t.Errorf("renewed to %+v from %+v", got.Coordinator, first.Coordinator)
	}
	if err := c.Release(t.Context(), "users", 1); err != nil {
		t.Fatal(err)
	}
	second, err := c.Coordinate(t.Context(), "users", "pod-2", time.Hour)
	if err != nil || second.Coordinator.Epoch != 2 {
		t.Fatalf("successor is %+v: %v", second, err)
	}
	if _, err := c.WriteAs(t.Context(), 1, changed, catalog.Promote(changed, by)); !errors.Is(err, catalog.ErrConflict) {
		t.Errorf("the late coordinator wrote: %v", err)
	}
	if err := c.Renew(t.Context(), "users", 1, time.Hour); !errors.Is(err, catalog.ErrNotCoordinator) {
		t.Errorf("the late coordinator renewed its lease: %v", err)
	}
	if _, err := c.Write(t.Context(), second, catalog.Fail(second, "no", by)); err != nil {
		t.Errorf("a change beside the coordinator: %v", err)
	}
}

// The lease of a dead coordinator is free at once. Those of others, and its own after another
// pod has taken it, are kept.
func TestLeaseOfADeadCoordinatorIsFree(t *testing.T) {
	t.Parallel()
	c, _ := stored(t)
	abandon := func(want int) {
		t.Helper()
		if released, err := c.Abandon(t.Context(), []string{"unknown", "$dead"}); err != nil || released != want {
			t.Fatalf("%d leases released, not %d: %v", released, want, err)
		}
	}
	if _, err := c.Coordinate(t.Context(), "users", "$dead", time.Hour); err != nil {
		t.Fatal(err)
	}
	abandon(1)
	abandon(0)
	if e, err := c.Coordinate(t.Context(), "users", "pod-2", time.Hour); err != nil || e.Coordinator.Epoch != 2 {
		t.Fatalf("the successor is %+v: %v", e, err)
	}
	abandon(0)
	if _, err := c.Coordinate(t.Context(), "users", "pod-3", time.Hour); !errors.Is(err, catalog.ErrNotCoordinator) {
		t.Errorf("the lease of a living coordinator is free: %v", err)
	}
}
