package operate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// own records a pipeline as the owner of a name, as its projectors do when they start.
func own(t *testing.T, db *mongo.Database, p config.Pipeline, kind, name string) {
	t.Helper()
	owned := catalog.OwnedName{Kind: kind, Name: name, Owner: []catalog.OwnerField{
		{Name: "Service Bus namespace", Value: p.Namespace}, {Name: "topic", Value: p.Topic},
		{Name: "subscription", Value: p.Subscription}, {Name: "event store", Value: p.EventStore},
	}}
	if err := catalog.TakeNames(t.Context(), []catalog.Place{{Owners: catalog.Owners(db), Names: []catalog.OwnedName{owned}}}, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
}

// visitsEntry stores a live projection of visitsYAML in the catalog.
func visitsEntry(t *testing.T, state *mongo.Database, pipeline string) *catalog.Entry {
	t.Helper()
	projections := projectiontest.All(t, visitsYAML)
	entry, err := catalog.NewCatalog(state.Collection(catalog.CatalogName), pipeline).Write(t.Context(), nil,
		catalog.Create(pipeline, catalog.Declare(projections[0])[0], catalog.Author{At: time.Now()}))
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

func TestReadModelsOfAnotherDatabaseAreRefused(t *testing.T) {
	t.Parallel()
	ours := config.Pipeline{Namespace: "shop", Topic: "events", Subscription: "projector", EventStore: "shop.events"}
	others := ours
	others.Subscription = "test"
	for name, test := range map[string]struct {
		// owned is a collection with an owner.
		owned string
		owner config.Pipeline
		want  string
	}{
		"no owner":                      {"", ours, "which no pipeline owns"},
		"the pipeline is the owner":     {"visits", ours, ""},
		"another pipeline is the owner": {"visits", others, "which shop/events/test/shop.events owns"},
		"owner of another collection":   {"orders", ours, "which no pipeline owns"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := server.Database(t)
			if test.owned != "" {
				own(t, db, test.owner, "read model", test.owned)
			}
			s := &stored{Stores: &config.Stores{ReadModels: db, State: db}, environment: &Environment{}}
			err := s.checkReadModels(t.Context(), visitsEntry(t, db, ours.String()))
			if errors.Is(err, errOtherReadModels) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestCommandWithOtherFieldNamesIsRefused checks that neither a projector nor a command reads
// events by other names of fields than the projectors before.
func TestCommandWithOtherFieldNamesIsRefused(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	var c config.Config
	c.Fields = event.DefaultFields()
	s := &stored{Stores: &config.Stores{ReadModels: db, State: db}, environment: &Environment{Config: c}}
	take := func(c config.Config) error {
		places, err := Owned(t.Context(), &c, nil, s.Stores)
		if err != nil {
			t.Fatal(err)
		}
		return ExplainOwner(catalog.TakeNames(t.Context(), places, zerolog.Nop()))
	}
	if err := errors.Join(take(c), take(c), s.checkFields(t.Context(), c.Pipeline().String())); err != nil {
		t.Fatal(err)
	}
	const want = `PENSTOCK_FIELD_PAYLOAD: recorded "payload", now "data"`
	c.Fields.Payload = "data"
	s.environment.Config = c
	err := s.checkFields(t.Context(), c.Pipeline().String())
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a command: %v", err)
	}
	if err = take(c); err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("a projector: %v", err)
	}
	record := ownedFields + " " + c.Pipeline().String()
	if !strings.Contains(err.Error(), fmt.Sprintf("projector owners release --why TEXT %q", record)) {
		t.Errorf("the command is missing: %v", err)
	}
	var out bytes.Buffer
	e := &Environment{Config: c, Logger: zerolog.Nop(), stdout: &out, stderr: &out}
	s.environment = e
	command := ownersReleaseCommand{Names: []string{record}, Change: cli.Change{Yes: true, Why: "renamed"}}
	if err := errors.Join(command.runOn(t.Context(), e, s), take(c), s.checkFields(t.Context(), c.Pipeline().String())); err != nil {
		t.Errorf("released: %v\n%s", err, &out)
	}
	command.Names = []string{"projection none"}
	if err := command.runOn(t.Context(), e, s); err == nil || !strings.Contains(err.Error(), `no pipeline owns "projection none"`) {
		t.Errorf("a name without an owner: %v", err)
	}
	// With a wrong name here no event can be read, so a first start must not bind it.
	c.Fields.AggregateID = "aggregate"
	if err := take(c); err != nil {
		t.Errorf("another name of a field that events must have: %v", err)
	}
}

// TestVerifyRepairsNothingInAnotherDatabase checks that a verification in the wrong database
// of read models writes no document there.
func TestVerifyRepairsNothingInAnotherDatabase(t *testing.T) {
	t.Parallel()
	wrong, state := server.Database(t), server.Database(t)
	var c config.Config
	c.Fields = event.DefaultFields()
	c.MongoDB.EventsDatabase, c.MongoDB.EventsCollection = "shop", "events"
	visitsEntry(t, state, c.Pipeline().String())
	if _, err := state.Collection("events").InsertOne(t.Context(), came("a", 1, 1)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	e := &Environment{Config: c, Logger: zerolog.Nop(), stdout: &out, stderr: &out}
	s := &stored{
		Stores: &config.Stores{ReadModels: wrong, State: state, Events: state.Collection("events")}, environment: e,
		catalog: catalog.NewCatalog(state.Collection(catalog.CatalogName), ""), parked: park.NewStore(park.In(state), park.Options{}),
	}
	// Without names and without PENSTOCK_PROJECTIONS, the projections are those of the catalog.
	for _, names := range [][]string{{"visits"}, nil} {
		command := verifyCommand{Projection: names, Sample: "100%", Repair: true, Grace: time.Second, Limit: 10, Change: cli.Change{Yes: true}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := command.runOn(ctx, e, s); !errors.Is(err, errOtherReadModels) {
			t.Errorf("the verification of %q ended with %v\n%s", names, err, out.String())
		}
	}
	if n, err := wrong.Collection("visits").CountDocuments(t.Context(), bson.D{}); n != 0 || err != nil {
		t.Errorf("%d documents in the wrong database, %v", n, err)
	}
}
