package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/reconcile"
)

// pipeline is the state of a pipeline that several processes share, and its jobs.
type pipeline struct {
	state *mongotest.Collection
	mu    sync.Mutex
	live  []reconcile.Projection
	// jobs are the started sweeps by id. began lists the ids in the order of the starts.
	jobs  map[string]reconcile.Progress
	began []string
	// took is the duration of a sweep; 0 means that it never ends.
	took time.Duration
	// folds is the number of aggregates that a sweep folds. fails makes it fail.
	folds int64
	fails bool
	// down makes every request fail.
	down error
}

type stored struct {
	generation int64
	through    time.Time
}

func newPipeline(t *testing.T, live ...reconcile.Projection) *pipeline {
	t.Helper()
	p := &pipeline{state: server.Collection(reconcile.In(server.Database(t))), jobs: make(map[string]reconcile.Progress), live: live, took: time.Minute}
	p.state.Before = func(context.Context, string) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.down
	}
	return p
}

func (p *pipeline) set(change func(*pipeline)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// record returns the stored record of the projection orders.
func (p *pipeline) record(t *testing.T) (s stored) {
	t.Helper()
	d := p.state.Stored(t, bson.D{{Key: "_id.projection", Value: orders.Name}})
	s.generation, _ = d["generation"].(int64)
	if through, ok := d["through"].(bson.DateTime); ok {
		s.through = through.Time()
	}
	return s
}

// leader returns the holder of the lease.
func (p *pipeline) leader(t *testing.T) any {
	t.Helper()
	return p.state.Stored(t, bson.D{{Key: "holder", Value: bson.D{{Key: "$ne", Value: nil}}}})["holder"]
}

func (p *pipeline) sweeps() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.began)
}

// process is one process of the pipeline.
type process struct{ *pipeline }

func (p process) Live(context.Context) ([]reconcile.Projection, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.live), nil
}

func (p process) Start(_ context.Context, id string, _ reconcile.Projection) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return p.down
	}
	if _, ok := p.jobs[id]; ok {
		return nil
	}
	p.jobs[id] = reconcile.Progress{}
	p.began = append(p.began, id)
	if p.took > 0 {
		progress := reconcile.Progress{Ended: true, Failed: p.fails, Folded: p.folds}
		time.AfterFunc(p.took, func() { p.set(func(p *pipeline) { p.jobs[id] = progress }) })
	}
	return nil
}

func (p process) Progress(_ context.Context, id string) (reconcile.Progress, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	progress, ok := p.jobs[id]
	progress.Unknown = !ok
	return progress, nil
}

// running is a running reconciler.
type running struct {
	*reconcile.Reconciler
	registry *prometheus.Registry
	log      *bytes.Buffer
	stop     func()
}

func (p *pipeline) start(t *testing.T, name string) *running {
	t.Helper()
	r := &running{registry: prometheus.NewPedanticRegistry(), log: &bytes.Buffer{}}
	one := process{p}
	reconciler := reconcile.New(reconcile.Options{Records: reconcile.NewStore(p.state, "shop", "readmodels", name), Sweeps: one, Interval: time.Hour, Registerer: r.registry, Logger: zerolog.New(r.log)})
	r.Reconciler = reconciler
	r.stop = testkit.Start(t, reconciler.Run)
	return r
}

var orders = reconcile.Projection{Name: "orders", Generation: 1}

// TestEachProjectionIsSweptOncePerInterval checks that each projection is swept once per
// interval, and that the verified time is the start of the sweep.
func TestEachProjectionIsSweptOncePerInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline(t, orders, reconcile.Projection{Name: "users", Generation: 3})
		p.folds = 7
		r := p.start(t, "one")
		defer r.stop()
		testkit.Pass(30 * time.Second)
		if n := testutil.CollectAndCount(r.registry, "penstock_projector_verified_through_timestamp_seconds"); n != 0 || len(p.sweeps()) != 2 {
			t.Errorf("%d verified before the first sweep has ended, %d sweeps", n, len(p.sweeps()))
		}
		testkit.Pass(5 * time.Hour)
		if len(p.sweeps()) < 10 || len(p.sweeps()) > 12 {
			t.Errorf("%d sweeps of two projections in five hours: %v", len(p.sweeps()), p.sweeps())
		}
		if s := p.record(t); s.through.IsZero() || time.Since(s.through) > 2*time.Hour {
			t.Errorf("verified through %s", s.through)
		}
		if n := testutil.CollectAndCount(r.registry, "penstock_projector_verified_through_timestamp_seconds"); n != 2 {
			t.Errorf("%d verified", n)
		}
		if !strings.Contains(r.log.String(), `"projection":"users","aggregates":7`) {
			t.Errorf("the log does not name the aggregates that were behind: %s", r.log)
		}
	})
}

// TestAnotherProcessContinuesTheSweep checks that only one of several processes starts
// sweeps, that each of them reports the verified time, and that another one continues the
// same sweep.
func TestAnotherProcessContinuesTheSweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline(t, orders)
		p.took = 10 * time.Minute
		first := p.start(t, "one")
		testkit.Pass(20 * time.Second)
		second := p.start(t, "two")
		defer second.stop()
		testkit.Pass(time.Minute)
		first.stop()
		testkit.Pass(20 * time.Minute)
		if len(p.sweeps()) != 1 || p.leader(t) != "two" {
			t.Errorf("%d sweeps, the lease is with %s", len(p.sweeps()), p.leader(t))
		}
		if n := testutil.CollectAndCount(second.registry, "penstock_projector_verified_through_timestamp_seconds"); n != 1 {
			t.Errorf("%d verified", n)
		}
	})
}

// TestSweepWithoutAJobGetsItsJob checks that if a process ends between storing the record
// and creating the job, the next process creates the job.
func TestSweepWithoutAJobGetsItsJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline(t, orders)
		if begun, err := reconcile.NewStore(p.state, "shop", "readmodels", "none").Begin(t.Context(), orders, "lost", reconcile.Record{}); err != nil || !begun {
			t.Fatal(err)
		}
		r := p.start(t, "one")
		defer r.stop()
		testkit.Pass(2 * time.Minute)
		if !slices.Equal(p.sweeps(), []string{"lost"}) || p.record(t).through.IsZero() {
			t.Errorf("sweeps %v, verified through %s", p.sweeps(), p.record(t).through)
		}
	})
}

// TestFailedSweepVerifiesNothing checks that a failed sweep is repeated after a short
// time, and that a new generation starts without a verified time.
func TestFailedSweepVerifiesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline(t, orders)
		p.fails = true
		r := p.start(t, "one")
		defer r.stop()
		testkit.Pass(30 * time.Minute)
		if len(p.sweeps()) < 2 || len(p.sweeps()) > 4 || !p.record(t).through.IsZero() {
			t.Errorf("%d sweeps, verified through %s", len(p.sweeps()), p.record(t).through)
		}
		p.set(func(p *pipeline) { p.fails = false })
		testkit.Pass(30 * time.Minute)
		if p.record(t).through.IsZero() {
			t.Error("nothing is verified")
		}
		p.set(func(p *pipeline) { p.live[0].Generation, p.took = 2, 0 })
		testkit.Pass(time.Minute)
		if s := p.record(t); s.generation != 2 || !s.through.IsZero() {
			t.Errorf("generation %d is verified through %s", s.generation, s.through)
		}
		if n := testutil.CollectAndCount(r.registry, "penstock_projector_verified_through_timestamp_seconds"); n != 0 {
			t.Errorf("%d verified", n)
		}
	})
}

// TestOutageIsReportedOnce checks that a lasting failure is logged once, and that sweeps
// continue after it.
func TestOutageIsReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline(t, orders)
		p.down = errors.New("no primary")
		r := p.start(t, "one")
		testkit.Pass(time.Hour)
		p.set(func(p *pipeline) { p.down = nil })
		testkit.Pass(5 * time.Minute)
		r.stop()
		if n := strings.Count(r.log.String(), "not reconciled"); n != 1 || !strings.Contains(r.log.String(), "reconciled again") {
			t.Errorf("the log: %s", r.log)
		}
		if p.record(t).through.IsZero() {
			t.Error("nothing is verified")
		}
	})
}
