package operate

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

// A person may take long to confirm a drop. If the projection has become live again under
// the same collection, nothing may be deleted.
func TestDropDeletesNothingOfAProjectionThatHasChanged(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	s := &config.Stores{ReadModels: db, State: db}
	projections := catalog.NewCatalog(db.Collection(catalog.CatalogName), "")
	by := catalog.Author{At: time.Now()}
	declared := catalog.Declared{Name: "visits", Definition: catalog.Definition{Hash: "a", Collection: "visits"}}
	write := func(old, changed *catalog.Entry) *catalog.Entry {
		t.Helper()
		stored, err := projections.Write(t.Context(), old, changed)
		if err != nil {
			t.Fatal(err)
		}
		return stored
	}
	step := func(e *catalog.Entry, err error) *catalog.Entry {
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
	live := write(nil, catalog.Create("p", declared, by))
	retired := write(live, step(catalog.Retire(live, by)))
	collections := dropped(retired, map[string]*catalog.Entry{"visits": retired})
	drop, err := NewDrop(t.Context(), s, projections, retired, collections)
	if err != nil {
		t.Fatal(err)
	}

	again := write(retired, step(catalog.Start(retired, "p", declared, 0, by)))
	again = write(again, catalog.Promote(again, by))
	if _, err := drop.Run(t.Context(), by); !errors.Is(err, catalog.ErrConflict) {
		t.Errorf("the drop ended with %v", err)
	}
	has(true)

	retired = write(again, step(catalog.Retire(again, by)))
	drop.entry = retired
	// An application has written into the collection meanwhile.
	if _, err := db.Collection("visits").InsertMany(t.Context(), []any{bson.D{{Key: "_id", Value: "one"}}, bson.D{{Key: "_id", Value: 2}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := drop.Run(t.Context(), by); err == nil || !strings.Contains(err.Error(), "visits has 2 documents that no projector has written, such as the one with _id \"one\": nothing is deleted") {
		t.Errorf("the drop ended with %v", err)
	}
	has(true)
	if e, err := projections.List(t.Context()); err != nil || len(e["visits"].Dropping) > 0 || e["visits"].Dropped() {
		t.Errorf("the entry is %+v, %v", e["visits"], err)
	}
	if _, err := db.Collection("visits").DeleteMany(t.Context(), bson.D{{Key: "lastEventId", Value: nil}}); err != nil {
		t.Fatal(err)
	}
	counts, err := drop.Run(t.Context(), by)
	if err != nil || counts["collections"] != 1 {
		t.Errorf("the drop ended with %v, %v", counts, err)
	}
	has(false)
	entries, err := projections.List(t.Context())
	if err != nil || !entries["visits"].Dropped() || len(entries["visits"].Left) > 0 {
		t.Errorf("the entry is %+v, %v", entries["visits"], err)
	}
}

// A promotion renames the collection first and writes the catalog afterwards. In between, a
// collection that the projection used earlier already holds the new generation.
func TestDropKeepsTheCollectionThatIsBeingPromoted(t *testing.T) {
	t.Parallel()
	e := &catalog.Entry{
		Name: "visits", Live: &catalog.Live{Definition: catalog.Definition{Collection: "new"}},
		Building: &catalog.Build{Definition: catalog.Definition{Collection: "old"}, Shadow: "visits.generation-3"},
		Left:     []catalog.Left{{Collection: "old"}, {Collection: "older"}},
	}
	if got := dropped(e, map[string]*catalog.Entry{"visits": e}); !slices.Equal(got, []string{"older"}) {
		t.Errorf("dropped are %v", got)
	}
}

// TestDropNamesOnlyWhatIsThere drops a projection whose collection somebody has deleted.
func TestDropNamesOnlyWhatIsThere(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	projections := catalog.NewCatalog(db.Collection(catalog.CatalogName), "")
	by := catalog.Author{At: time.Now()}
	live, err := projections.Write(t.Context(), nil, catalog.Create(config.Pipeline{Topic: "p"}.String(), catalog.Declared{Name: "visits", Definition: catalog.Definition{Hash: "a", Collection: "visits"}}, by))
	if err != nil {
		t.Fatal(err)
	}
	retired, err := catalog.Retire(live, by)
	if err == nil {
		_, err = projections.Write(t.Context(), live, retired)
	}
	if err != nil {
		t.Fatal(err)
	}
	var out, asked strings.Builder
	e := &Environment{stdout: &out, stderr: &asked}
	s := &stored{Stores: &config.Stores{ReadModels: db, State: db}, environment: e, catalog: projections, parked: park.NewStore(park.In(db), park.Options{})}
	c := &projectionsDropCommand{projectionName: projectionName{"visits"}, Change: cli.Change{Yes: true, Why: "test"}}
	if err := c.runOn(t.Context(), e, s); !errors.Is(err, errOtherReadModels) {
		t.Errorf("in a database that knows nothing of the projection, the drop ended with %v", err)
	}
	own(t, db, config.Pipeline{Topic: "p"}, "projection", "visits")
	if err := c.runOn(t.Context(), e, s); err != nil || out.String() != "forgot visits\n" {
		t.Errorf("the drop ended with %v: %s%s", err, out.String(), asked.String())
	}
	entries, err := projections.List(t.Context())
	if err != nil || !entries["visits"].Dropped() {
		t.Errorf("the entry is %+v, %v", entries["visits"], err)
	}
}

// TestDropDeletesNothingOfAnotherPipeline drops what another pipeline has adopted, or has in a
// database that is configured by mistake.
func TestDropDeletesNothingOfAnotherPipeline(t *testing.T) {
	t.Parallel()
	ours, others := config.Pipeline{Topic: "ours"}, config.Pipeline{Topic: "others"}
	for name, owners := range map[string][2]config.Pipeline{
		"projection": {others, others},
		"collection": {ours, others},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := server.Database(t)
			if _, err := db.Collection("visits").InsertOne(t.Context(), bson.D{{Key: "_id", Value: "a"}, {Key: "lastEventId", Value: int64(1)}}); err != nil {
				t.Fatal(err)
			}
			own(t, db, owners[0], "projection", "visits")
			own(t, db, owners[1], "read model", "visits")
			entry := &catalog.Entry{Name: "visits", Pipeline: ours.String()}
			projections := catalog.NewCatalog(db.Collection(catalog.CatalogName), "")
			if _, err := NewDrop(t.Context(), &config.Stores{ReadModels: db, State: db}, projections, entry, []string{"visits"}); !errors.Is(err, errOtherReadModels) {
				t.Errorf("the drop is prepared: %v", err)
			}
		})
	}
}
