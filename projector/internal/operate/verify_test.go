package operate

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// TestVerificationIsLeftToThePipelineOfTheProjection: two pipelines can share the state
// database. A pod of one must not compare or repair the read models of the other with its
// own events.
func TestVerificationIsLeftToThePipelineOfTheProjection(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	s := &config.Stores{ReadModels: db, State: db, Events: db.Collection("orders")}
	pipeline := func(collection string) config.Config {
		var c config.Config
		c.Fields = event.DefaultFields()
		c.MongoDB.EventsDatabase, c.MongoDB.EventsCollection = "shop", collection
		return c
	}
	orders, invoices := pipeline("orders"), pipeline("invoices")
	projections := projectiontest.All(t, visitsYAML)
	visitsEntry(t, db, invoices.Pipeline().String())
	loader, writer := readmodel.NewLoader(db, readmodel.LoaderOptions{}), readmodel.NewWriter(db, readmodel.WriterOptions{})
	verifying := job.Job{ID: "visits", Kind: job.Verify, Projection: "visits", Generation: catalog.First}
	for _, test := range []struct {
		name string
		d    *definitions
		mine bool
	}{
		{"a pod of the pipeline", newDefinitions(s, invoices, NewCompiler(projections)), true},
		{"a pod of another pipeline", newDefinitions(s, orders, NewCompiler(projections)), false},
		{"a command of the pipeline", newCommandDefinitions(s, invoices, projections), true},
		{"a command of another pipeline", newCommandDefinitions(s, orders, projections), false},
	} {
		worker := newVerifier(orders, s, test.d, struct {
			*readmodel.Loader
			*readmodel.Writer
		}{loader, writer}, park.NewStore(park.In(s.State), park.Options{}), zerolog.Nop())
		if _, _, err := worker.Plan(t.Context(), verifying); errors.Is(err, job.ErrNotHere) == test.mine {
			t.Errorf("%s plans the job: %v", test.name, err)
		}
		if _, err := test.d.target(t.Context(), "visits", catalog.First); errors.Is(err, job.ErrNotHere) == test.mine {
			t.Errorf("%s finds the projection: %v", test.name, err)
		}
		if _, err := test.d.live(t.Context(), "visits"); errors.Is(err, errOtherPipeline) == test.mine || err != nil && !strings.Contains(err.Error(), "shop.invoices") {
			t.Errorf("%s finds the live generation: %v", test.name, err)
		}
	}
}

// TestVerificationKnowsAGenerationThatIsBuilt: it repairs an erased aggregate with new events only in
// a generation that is built, and changes nothing of one that was promoted meanwhile.
func TestVerificationKnowsAGenerationThatIsBuilt(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	projections := projectiontest.All(t, visitsYAML)
	old := visitsEntry(t, db, new(config.Config).Pipeline().String())
	next, err := catalog.Start(old, old.Pipeline, catalog.Declare(projections[0])[0], 0, catalog.Author{At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := catalog.NewCatalog(db.Collection(catalog.CatalogName), old.Pipeline).Write(t.Context(), old, next); err != nil {
		t.Fatal(err)
	}
	d := newDefinitions(&config.Stores{ReadModels: db, State: db}, config.Config{}, NewCompiler(projections))
	for number, building := range map[int64]bool{old.Live.Generation: false, next.Building.Generation: true} {
		if target, err := d.target(t.Context(), "visits", number); err != nil || target.Building != building {
			t.Errorf("generation %d is %+v, %v", number, target, err)
		}
	}
}

// TestOnlyWhatIsLiveIsVerified: read models that no projector keeps up to date would all be
// missing or behind, and a repair would write them before any rollout.
func TestOnlyWhatIsLiveIsVerified(t *testing.T) {
	t.Parallel()
	projections := projectiontest.All(t, visitsYAML)
	declared := catalog.Declare(projections[0])[0]
	by := catalog.Author{At: time.Now()}
	for name, test := range map[string]struct {
		entry func() (*catalog.Entry, error)
		want  string
	}{
		"declared by nobody yet": {nil, "no projector has started with it"},
		"first generation being built": {func() (*catalog.Entry, error) {
			return catalog.Start(nil, new(config.Config).Pipeline().String(), declared, 0, by)
		}, " is building"},
		"retired": {func() (*catalog.Entry, error) {
			return catalog.Retire(catalog.Create(new(config.Config).Pipeline().String(), declared, by), by)
		}, "no projector declares it any more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := server.Database(t)
			if test.entry != nil {
				entry, err := test.entry()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := catalog.NewCatalog(db.Collection(catalog.CatalogName), new(config.Config).Pipeline().String()).Write(t.Context(), nil, entry); err != nil {
					t.Fatal(err)
				}
			}
			s := &config.Stores{ReadModels: db, State: db}
			number, err := newCommandDefinitions(s, config.Config{}, projections).live(t.Context(), "visits")
			if !errors.Is(err, errNotLive) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("generation %d, %v; want an error with %q", number, err, test.want)
			}
		})
	}
}

func TestSampleIsAPercentageOrAFraction(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"1%": 0.01, "100%": 1, "0.5": 0.5, "12.5%": 0.125} {
		if got, err := (&verifyCommand{Sample: text}).share(); got != want || err != nil {
			t.Errorf("%s is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "0%", "101%", "-1%", "half", "NaN", "%"} {
		if got, err := (&verifyCommand{Sample: text}).share(); err == nil {
			t.Errorf("%s is %v", text, got)
		}
	}
}

func TestProgressLineShowsRateAndTimeLeft(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		job  job.Job
		from int64
		want string
	}{
		{job.Job{State: job.Planning}, 0, "users [------------------------]   0%"},
		{job.Job{State: job.Running, Total: 1000, Counts: map[string]int64{"events": 250}}, 0, "users [######------------------]  25%  250 events, 25/s, 31s left"},
		{job.Job{State: job.Running, Total: 1000, Counts: map[string]int64{"events": 1100}}, 0, "users [########################] 100%  1100 events, 110/s"},
		{job.Job{State: job.Running, Ranges: 4, RangesDone: 1}, 0, "users [######------------------]  25%"},
		{job.Job{State: job.Running, Total: 1000, Counts: map[string]int64{"events": 750}}, 500, "users [##################------]  75%  750 events, 25/s, 11s left"},
		{job.Job{State: job.Running, Total: 1000, Counts: map[string]int64{"events": 940, "late": 3}}, 0, "users [######################--]  94%  940 events, 94/s, waiting for --grace: 3 behind"},
		{job.Job{State: job.Running, Reason: "no primary"}, 0, "users [------------------------]   0%  running no primary"},
	} {
		if got := progressLine("users", test.job, "events", test.from, 10*time.Second); got != test.want {
			t.Errorf("%+v shows\n%s, want\n%s", test.job, got, test.want)
		}
	}
}
