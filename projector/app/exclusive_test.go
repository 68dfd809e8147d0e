package app

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/event"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/secret"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// TestExclusiveCommandsAreBoundedAndConfirmedByAMajority watches all commands of a rebuild
// and of a drop. A command that needs an exclusive lock must have a limit, because others
// queue behind it, and a majority must confirm it, also if the default of the server is w:1.
func TestExclusiveCommandsAreBoundedAndConfirmedByAMajority(t *testing.T) {
	t.Parallel()
	exclusive := []string{"create", "createIndexes", "collMod", "drop", "renameCollection"}
	var mu sync.Mutex
	seen := map[string]int{}
	monitor := &driver.CommandMonitor{Started: func(_ context.Context, e *driver.CommandStartedEvent) {
		if !slices.Contains(exclusive, e.CommandName) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		seen[e.CommandName]++
		limit, _ := e.Command.Lookup("maxTimeMS").AsInt64OK()
		if w, _ := e.Command.Lookup("writeConcern", "w").StringValueOK(); w != "majority" || limit < 1 {
			t.Errorf("without a limit or a majority: %s", e.Command.String())
		}
	}}
	c := newCluster(t)
	s, err := config.OpenStores(mongox.ReadModelsConfig{Config: mongox.Config{
		URI: secret.Text(server.URI()), StateDatabase: c.database.Name(), EventsDatabase: c.database.Name(), EventsCollection: "events",
	}, ReadModelsDatabase: c.database.Name()}, monitor, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	c.database = s.ReadModels
	if err := readmodel.Prepare(t.Context(), s.ReadModels, nil); err != nil {
		t.Fatal(err)
	}
	p := c.pod(0, visits(t, 1))
	p.deliver(c.store(names(3)...))
	p.stop()
	if err := mongox.CreateIndex(t.Context(), c.database.Collection("visits"), bson.D{{Key: "n", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	p = c.pod(0, visits(t, 2))
	c.live(2)
	c.await("the old collection dropped", func(e *catalog.Entry) bool { return len(e.Garbage) == 0 || len(c.shadows()) == 0 })
	p.stop()
	c.right(2)
	drop, err := operate.NewDrop(t.Context(), s, c.catalog, c.entry(), []string{"visits"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := drop.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"create", "createIndexes", "drop", "renameCollection"} {
		if seen[name] == 0 {
			t.Errorf("there was no %s", name)
		}
	}
}
