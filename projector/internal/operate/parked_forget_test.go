package operate

import (
	"errors"
	"io"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/generation"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/stores"
)

// TestForgetLeavesMarkersOfOtherEventStores checks that a command of one pipeline does not
// take the end of its own event store for that of another pipeline. Both share the parked list.
func TestForgetLeavesMarkersOfOtherEventStores(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	projections, err := projection.Parse("visits.yaml", []byte(visitsYAML))
	if err != nil {
		t.Fatal(err)
	}
	run := func(collection string) error {
		e := &Environment{stdout: io.Discard, stderr: io.Discard}
		e.Config.Fields = event.DefaultFields()
		e.Config.MongoDB.EventsDatabase, e.Config.MongoDB.EventsCollection = "shop", collection
		s := &stored{
			Stores: &stores.Stores{State: db, Events: db.Collection(collection)}, environment: e,
			catalog: generation.NewCatalog(mongox.Durable(db, generation.CatalogName), ""),
			parked:  park.NewStore(park.In(db), park.Options{}),
		}
		return (&parkedForgetCommand{parkedFilter: parkedFilter{Limit: maxParked}, Change: cli.Change{Yes: true, Why: "test"}}).runOn(t.Context(), e, s)
	}
	var invoices config.Config
	invoices.MongoDB.EventsDatabase, invoices.MongoDB.EventsCollection = "shop", "invoices"
	pipeline := invoices.Pipeline().String()
	entry := generation.Create(pipeline, generation.Declare(projections[0])[0], generation.Found{}, generation.Author{At: time.Now()})
	if _, err := generation.NewCatalog(mongox.Durable(db, generation.CatalogName), pipeline).Write(t.Context(), nil, entry); err != nil {
		t.Fatal(err)
	}
	parked := park.NewStore(park.In(db), park.Options{})
	marker := model.Marker{Unit: model.Unit{Projection: "visits", AggregateID: "a"}, EventID: 2, Head: 2, Reason: "expression"}
	if err := parked.Park(t.Context(), []model.Marker{marker}); err != nil {
		t.Fatal(err)
	}
	// The events of the pipeline are in the collection invoices.
	for id := range int64(2) {
		if _, err := db.Collection("invoices").InsertOne(t.Context(), bson.D{{Key: "aggregateId", Value: "a"}, {Key: "eventId", Value: 1 + id}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := run("orders"); !errors.Is(err, errOtherPipeline) {
		t.Errorf("a command of another event store: %v", err)
	}
	if err := run("invoices"); !errors.Is(err, errNothingBeyond) {
		t.Errorf("a command of the event store: %v", err)
	}
	if n, err := parked.Matching(t.Context(), park.Filter{}); n != 1 || err != nil {
		t.Errorf("%d markers are left, %v", n, err)
	}
}
