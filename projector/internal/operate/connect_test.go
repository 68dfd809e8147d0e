package operate

import (
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

// A record of the catalog that cannot be read stops the commands only if it belongs to their
// event store. Commands leave the parked aggregates of another event store alone also then.
func TestUnreadableEntryOfAnotherEventStoreIsLeftOut(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	var invoices config.Config
	invoices.MongoDB.EventsDatabase, invoices.MongoDB.EventsCollection = "shop", "invoices"
	if _, err := db.Collection(catalog.CatalogName).InsertOne(t.Context(), bson.D{{Key: "_id", Value: "visits"}, {Key: "pipeline", Value: invoices.Pipeline().String()}, {Key: "revision", Value: "x"}}); err != nil {
		t.Fatal(err)
	}
	parked := park.NewStore(park.In(db), park.Options{})
	if err := parked.Park(t.Context(), []model.Marker{{Unit: model.Unit{Projection: "visits", AggregateID: "a"}, EventID: 2, Head: 2, Reason: "expression"}}); err != nil {
		t.Fatal(err)
	}
	run := func(collection string, c storedRunner) (out string, err error) {
		var shown strings.Builder
		e := &Environment{stdout: &shown, stderr: &shown, Logger: zerolog.New(&shown)}
		e.Config.MongoDB.EventsDatabase, e.Config.MongoDB.EventsCollection = "shop", collection
		err = c.runOn(t.Context(), e, &stored{
			Stores: &config.Stores{State: db, ReadModels: db}, environment: e,
			catalog: catalog.NewCatalog(db.Collection(catalog.CatalogName), ""), parked: parked,
		})
		return shown.String(), err
	}
	const named = `"visits" of collection projections cannot be read`
	for command, test := range map[string]struct {
		c    storedRunner
		want string
	}{
		"projections list": {&projectionsListCommand{}, "unreadable"},
		"parked list":      {&parkedListCommand{parkedFilter: parkedFilter{Limit: maxParked}}, "no parked aggregates"},
	} {
		if out, err := run("orders", test.c); err != nil || !strings.Contains(strings.ReplaceAll(out, `\`, ""), named) || !strings.Contains(out, test.want) {
			t.Errorf("%s in another event store: %v: %s", command, err, out)
		}
		if _, err := run("invoices", test.c); err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("%s in its event store: %v", command, err)
		}
	}
	for command, c := range map[string]storedRunner{
		"show": &projectionsShowCommand{projectionName: projectionName{"visits"}},
		"drop": &projectionsDropCommand{projectionName: projectionName{"orders"}, Change: cli.Change{Yes: true, Why: "test"}},
	} {
		if _, err := run("orders", c); err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("projections %s: %v", command, err)
		}
	}
}
