package operate

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

// emptyState is a state database in which no projector has ever registered, such as the wrong
// one.
func emptyState(t *testing.T) (*Environment, *stored, *bytes.Buffer) {
	t.Helper()
	db := server.Database(t)
	var out bytes.Buffer
	e := &Environment{Logger: zerolog.Nop(), stdout: &out, stderr: &out}
	e.Config.MongoDB.EventsDatabase, e.Config.MongoDB.EventsCollection = "shop", "events"
	return e, &stored{
		Stores: &config.Stores{ReadModels: db, State: db, Events: db.Collection("events")}, environment: e,
		catalog: catalog.NewCatalog(db.Collection(catalog.CatalogName), ""),
		parked:  park.NewStore(park.In(db), park.Options{}), jobs: job.NewStore(db, job.Options{}),
	}, &out
}

func TestStatusNamesADatabaseWithoutProjectors(t *testing.T) {
	t.Parallel()
	e, s, out := emptyState(t)
	if err := new(statusCommand).runOn(t.Context(), e, s); !errors.Is(err, cli.ErrFindings) {
		t.Errorf("the status ended with %v", err)
	}
	want := "no projection of event store shop.events is in use, as far as database " + s.State.Name() + " (PENSTOCK_STATE_DATABASE) shows\n"
	if out.String() != want {
		t.Errorf("the status is\n%s, want\n%s", out, want)
	}
}

// A pipeline whose projections are all retired needs no projector.
func TestStatusLeavesOutAFormerPipeline(t *testing.T) {
	t.Parallel()
	e, s, _ := emptyState(t)
	for name, retired := range map[string]*time.Time{"users": nil, "people": new(time.Time)} {
		entry := catalog.Create(name+e.Config.Pipeline().String(), catalog.Declared{Name: name, Definition: catalog.Definition{Collection: name, Text: "{}"}}, catalog.Author{})
		entry.RetiredAt = retired
		if _, err := s.catalog.Write(t.Context(), nil, entry); err != nil {
			t.Fatal(err)
		}
	}
	view, err := e.status(t.Context(), s)
	if err != nil || len(view.Pipelines) != 1 || view.Pipelines[0].Projections[0].Name != "users" {
		t.Errorf("%+v, %v", view.Pipelines, err)
	}
}

func TestStatusSaysThatThereCanBeMoreDeadLetters(t *testing.T) {
	t.Parallel()
	for more, want := range map[bool]string{false: "dead letters, expression: 2\n", true: "dead letters, expression: 2 or more\n"} {
		var out bytes.Buffer
		view := statusView{Pipelines: []pipelineStatus{{}}, DeadLetters: map[string]int{"expression": 2}, MoreDeadLetters: more}
		err := printLines(&out, "status", func(p printer) { p.status(view, time.Now()) })
		if err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("the status is\n%s, want %s (%v)", out.String(), want, err)
		}
	}
}
