package operate

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

// TestParkedCommandsLeaveOtherEventStoresAlone checks that a command of one pipeline does not
// list or change the markers of another one. Both share the parked list.
func TestParkedCommandsLeaveOtherEventStoresAlone(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	var invoices config.Config
	invoices.MongoDB.EventsDatabase, invoices.MongoDB.EventsCollection = "shop", "invoices"
	visitsEntry(t, db, invoices.Pipeline().String())
	parked := park.NewStore(park.In(db), park.Options{})
	marker := model.Marker{Unit: model.Unit{Projection: "visits", AggregateID: "a"}, EventID: 2, Head: 2, Reason: "expression"}
	if err := parked.Park(t.Context(), []model.Marker{marker}); err != nil {
		t.Fatal(err)
	}
	run := func(collection string, c storedRunner) (out string, err error) {
		var shown strings.Builder
		e := &Environment{stdout: &shown, stderr: &shown}
		e.Config.Fields = event.DefaultFields()
		e.Config.MongoDB.EventsDatabase, e.Config.MongoDB.EventsCollection = "shop", collection
		err = c.runOn(t.Context(), e, &stored{
			Stores: &config.Stores{State: db, Events: db.Collection(collection)}, environment: e,
			catalog: catalog.NewCatalog(db.Collection(catalog.CatalogName), ""), parked: parked,
		})
		return shown.String(), err
	}
	commands := func(name string) map[string]storedRunner {
		of, yes := parkedFilter{Projection: name, Limit: maxParked}, cli.Change{Yes: true, Why: "test"}
		return map[string]storedRunner{
			"retry":   &parkedRetryCommand{parkedFilter: of, Change: yes},
			"discard": &parkedDiscardCommand{parkedFilter: of, Change: yes},
		}
	}
	for name, c := range commands("") {
		if _, err := run("orders", c); !errors.Is(err, errNothingParked) {
			t.Errorf("%s in another event store: %v", name, err)
		}
	}
	for name, c := range commands("visits") {
		if _, err := run("orders", c); !errors.Is(err, errOtherPipeline) {
			t.Errorf("%s of a projection of another event store: %v", name, err)
		}
	}
	for name, c := range commands("visit") {
		if _, err := run("invoices", c); err == nil || !strings.Contains(err.Error(), `there is no projection "visit": the catalog has visits`) {
			t.Errorf("%s of a misspelt projection: %v", name, err)
		}
	}
	list := &parkedListCommand{parkedFilter: parkedFilter{Limit: maxParked}}
	const others = "no parked aggregates in the projections of event store shop.orders (PENSTOCK_EVENTS_DATABASE, PENSTOCK_EVENTS_COLLECTION); those of other event stores are visits"
	if out, err := run("orders", list); err != nil || !strings.Contains(out, others) {
		t.Errorf("the list of another event store: %s%v", out, err)
	}
	if out, err := run("invoices", list); err != nil || !strings.Contains(out, "visits") || !strings.Contains(out, "parked retry") {
		t.Errorf("the list of the event store: %s%v", out, err)
	}
	if _, err := run("invoices", commands("")["discard"]); err != nil {
		t.Errorf("discard in the event store: %v", err)
	}
	if n, err := parked.Matching(t.Context(), park.Filter{Discarded: true}); n != 1 || err != nil {
		t.Errorf("%d markers are discarded, %v", n, err)
	}
}

// answering is a terminal whose person says yes after another person's command.
type answering struct {
	theirs func()
	text   strings.Reader
}

func (a *answering) Read(p []byte) (int, error) {
	if a.theirs != nil {
		a.theirs()
		a.theirs = nil
		a.text.Reset("y\n")
	}
	return a.text.Read(p)
}

// Two persons decide about the same aggregate at the same time. Both commands say what has
// become of it.
func TestCommandReportsTheDecisionOfAnotherPerson(t *testing.T) {
	t.Parallel()
	of := parkedFilter{Limit: maxParked}
	retry := func(flags cli.Change) storedRunner { return &parkedRetryCommand{parkedFilter: of, Change: flags} }
	discard := func(flags cli.Change) storedRunner {
		flags.Why = "accepted"
		return &parkedDiscardCommand{parkedFilter: of, Change: flags}
	}
	for name, test := range map[string]struct {
		theirs, mine func(cli.Change) storedRunner
		err          string
		printed      []string
		discarded    bool
	}{
		"a retry during which another person discards": {
			discard, retry, cli.ErrFindings.Error(), []string{
				"0 resumed, 0 parked again, 0 pending, 1 discarded meanwhile\n",
				"1 aggregate not retried: changed since the command listed them",
				"they stay so",
			}, true,
		},
		"a second discard": {discard, discard, "1 aggregate changed meanwhile", []string{"discarded 0 parked aggregates"}, true},
		"a discard during which another person retries": {retry, discard, "1 aggregate changed meanwhile", []string{"discarded 0 parked aggregates"}, false},
		"a second retry": {retry, retry, "", []string{"0 resumed, 0 parked again, 1 pending\n", "1 aggregate not retried"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, s, out := emptyState(t)
			marker := model.Marker{Unit: model.Unit{Projection: "visits", AggregateID: "a"}, EventID: 2, Head: 2, Reason: "expression"}
			if err := s.parked.Park(t.Context(), []model.Marker{marker}); err != nil {
				t.Fatal(err)
			}
			e.stdin = &answering{theirs: func() {
				other := *e
				other.stdout, other.stderr = io.Discard, io.Discard
				if err := test.theirs(cli.Change{Yes: true}).runOn(t.Context(), &other, s); err != nil {
					t.Errorf("the other command: %v", err)
				}
			}}
			err := test.mine(cli.Change{}).runOn(t.Context(), e, s)
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("the error is %v, want %q", err, test.err)
			}
			for _, text := range test.printed {
				if !strings.Contains(out.String(), text) {
					t.Errorf("printed is %s, without %q", out, text)
				}
			}
			if n, err := s.parked.Matching(t.Context(), park.Filter{Discarded: test.discarded}); n != 1 || err != nil {
				t.Errorf("%d markers are as the other person has left them, %v", n, err)
			}
		})
	}
}
