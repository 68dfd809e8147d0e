package catalog_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
)

// stored returns a catalog with the entry users.
func stored(t *testing.T) (*catalog.Catalog, *catalog.Entry) {
	t.Helper()
	c := catalog.NewCatalog(server.Database(t).Collection(catalog.CatalogName), "p")
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
	full.RetiredAt, full.ErasedAt, full.Garbage[0].Removed = &at, &at, &at
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
	if got := read(t, c); got.Building.Hash != "b" || got.Revision != 2 {
		t.Errorf("stored is %s", say(got))
	}
}

func TestPipelinesDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	one := catalog.NewCatalog(db.Collection(catalog.CatalogName), "p")
	two := catalog.NewCatalog(db.Collection(catalog.CatalogName), "q")
	if _, err := one.Write(t.Context(), nil, live("a")); err != nil {
		t.Fatal(err)
	}
	if read(t, two) != nil {
		t.Error("another pipeline's projection is listed")
	}
	other := live("a")
	other.Name, other.Pipeline = "others", "q"
	if _, err := two.Write(t.Context(), nil, other); err != nil {
		t.Fatal(err)
	}
	if all, err := catalog.NewCatalog(db.Collection(catalog.CatalogName), "").List(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("without a pipeline: %v, %v", all, err)
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
	if _, err := catalog.NewCatalog(db.Collection(catalog.CatalogName), "p").List(t.Context()); err != nil {
		t.Errorf("another pipeline: %v", err)
	}
	_, err := catalog.NewCatalog(db.Collection(catalog.CatalogName), "q").List(t.Context())
	if err == nil || !strings.Contains(err.Error(), `_id "other" of collection projections cannot be read`) {
		t.Errorf("its pipeline: %v", err)
	}
}
