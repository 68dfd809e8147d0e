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

	"github.com/penstock-cdc/penstock/projector/internal/reconcile"
)

// pipeline is the state of a pipeline that several processes share, and its jobs.
type pipeline struct {
	mu      sync.Mutex
	holder  string
	until   time.Time
	records map[string]*stored
	live    []reconcile.Projection
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
	// paused is the result of Paused.
	paused bool
	// unhealed is the result of Heal.
	unhealed error
}

type stored struct {
	generation          int64
	sweep               string
	began, through, due time.Time
}

func newPipeline(live ...reconcile.Projection) *pipeline {
	return &pipeline{records: make(map[string]*stored), jobs: make(map[string]reconcile.Progress), live: live, took: time.Minute}
}

func (p *pipeline) set(change func(*pipeline)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// record copies the stored record of the projection orders.
func (p *pipeline) record() stored {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *p.records[orders.Name]
}

func (p *pipeline) sweeps() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.began)
}

func (p *pipeline) leader() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holder
}

// process is one process of the pipeline.
type process struct {
	*pipeline
	name string
}

func (p process) Hold(_ context.Context, lease time.Duration) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return false, p.down
	}
	if p.holder != p.name && time.Now().Before(p.until) {
		return false, nil
	}
	p.holder, p.until = p.name, time.Now().Add(lease)
	return true, nil
}

func (p process) Release(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holder == p.name {
		p.until = time.Time{}
	}
	return nil
}

func (p process) Read(context.Context) ([]reconcile.Record, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var records []reconcile.Record
	for name, s := range p.records {
		records = append(records, reconcile.Record{
			Projection: reconcile.Projection{Name: name, Generation: s.generation},
			Sweep:      s.sweep, Due: !time.Now().Before(s.due), Through: s.through,
		})
	}
	return records, nil
}

func (p process) Begin(_ context.Context, of reconcile.Projection, id string, read reconcile.Record) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.records[of.Name]
	if s == nil {
		s = &stored{}
		p.records[of.Name] = s
	}
	if s.sweep != "" && s.generation == of.Generation {
		return false, nil
	}
	s.generation, s.sweep, s.began = of.Generation, id, time.Now()
	if read.Through.IsZero() {
		s.through = time.Time{}
	}
	return true, nil
}

func (p process) End(_ context.Context, of reconcile.Projection, id string, verified bool, wait time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.records[of.Name]
	if s.sweep != id {
		return errors.New("another sweep is under way")
	}
	if s.sweep, s.due = "", time.Now().Add(wait); verified {
		s.through = s.began
	}
	return nil
}

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

func (p process) Heal(context.Context) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return 0, p.unhealed
}

func (process) Close() {}

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
	one := process{p, name}
	reconciler, err := reconcile.New(reconcile.Options{Records: one, Sweeps: one, Interval: time.Hour, Registerer: r.registry, Logger: zerolog.New(r.log),
		DeadLetters: one,
		Paused: func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.paused
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Reconciler = reconciler
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- reconciler.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	return r
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

var orders = reconcile.Projection{Name: "orders", Generation: 1}

// TestEachProjectionIsSweptOncePerInterval checks that each projection is swept once per
// interval, and that the verified time is the start of the sweep.
func TestEachProjectionIsSweptOncePerInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline(orders, reconcile.Projection{Name: "users", Generation: 3})
		p.folds = 7
		r := p.start(t, "one")
		defer r.stop()
		pass(30 * time.Second)
		if n := testutil.CollectAndCount(r.registry, "penstock_projector_verified_through_timestamp_seconds"); n != 0 || len(p.sweeps()) != 2 {
			t.Errorf("%d verified before the first sweep has ended, %d sweeps", n, len(p.sweeps()))
		}
		pass(5 * time.Hour)
		if len(p.sweeps()) < 10 || len(p.sweeps()) > 12 {
			t.Errorf("%d sweeps of two projections in five hours: %v", len(p.sweeps()), p.sweeps())
		}
		if s := p.record(); s.through.IsZero() || time.Since(s.through) > 2*time.Hour {
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

// In a pause, projectors must not apply events. A sweep would fold the same events.
func TestNothingIsSweptInAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline(orders)
		p.paused = true
		r := p.start(t, "one")
		defer r.stop()
		pass(5 * time.Hour)
		if len(p.sweeps()) != 0 {
			t.Errorf("%d sweeps in the pause", len(p.sweeps()))
		}
		p.set(func(p *pipeline) { p.paused = false })
		pass(time.Minute)
		if len(p.sweeps()) != 1 {
			t.Errorf("%d sweeps after the pause, want 1", len(p.sweeps()))
		}
	})
}

// TestAnotherProcessContinuesTheSweep checks that only one of several processes starts
// sweeps, that each of them reports the verified time, and that another one continues the
// same sweep.
func TestAnotherProcessContinuesTheSweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline(orders)
		p.took = 10 * time.Minute
		first := p.start(t, "one")
		pass(20 * time.Second)
		second := p.start(t, "two")
		defer second.stop()
		pass(time.Minute)
		first.stop()
		pass(20 * time.Minute)
		if len(p.sweeps()) != 1 || p.leader() != "two" {
			t.Errorf("%d sweeps, the lease is with %s", len(p.sweeps()), p.leader())
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
		p := newPipeline(orders)
		p.records["orders"] = &stored{generation: 1, sweep: "lost", began: time.Now()}
		r := p.start(t, "one")
		defer r.stop()
		pass(2 * time.Minute)
		if !slices.Equal(p.sweeps(), []string{"lost"}) || p.record().through.IsZero() {
			t.Errorf("sweeps %v, verified through %s", p.sweeps(), p.record().through)
		}
	})
}

// TestFailedSweepVerifiesNothing checks that a failed sweep is repeated after a short
// time, and that a new generation starts without a verified time.
func TestFailedSweepVerifiesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline(orders)
		p.fails = true
		r := p.start(t, "one")
		defer r.stop()
		pass(30 * time.Minute)
		if len(p.sweeps()) < 2 || len(p.sweeps()) > 4 || !p.record().through.IsZero() {
			t.Errorf("%d sweeps, verified through %s", len(p.sweeps()), p.record().through)
		}
		p.set(func(p *pipeline) { p.fails = false })
		pass(30 * time.Minute)
		if p.record().through.IsZero() {
			t.Error("nothing is verified")
		}
		p.set(func(p *pipeline) { p.live[0].Generation, p.took = 2, 0 })
		pass(time.Minute)
		if s := p.record(); s.generation != 2 || !s.through.IsZero() {
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
		p := newPipeline(orders)
		p.down = errors.New("no primary")
		r := p.start(t, "one")
		pass(time.Hour)
		p.set(func(p *pipeline) { p.down = nil })
		pass(5 * time.Minute)
		r.stop()
		if n := strings.Count(r.log.String(), "not reconciled"); n != 1 || !strings.Contains(r.log.String(), "reconciled again") {
			t.Errorf("the log: %s", r.log)
		}
		if p.record().through.IsZero() {
			t.Error("nothing is verified")
		}
	})
}

// Between two passes over the dead letters nothing is healed, so a beat between them is no
// recovery: an unreachable broker was called "reconciled again" after five seconds.
func TestOutageOfTheBrokerLastsUntilAPassSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipeline(orders)
		p.unhealed = errors.New("no route to the broker")
		r := p.start(t, "one")
		pass(150 * time.Second)
		if log := r.log.String(); strings.Contains(log, "again") || strings.Count(log, "not reconciled") != 1 || r.Err() == nil {
			t.Errorf("during the outage (%v) the log has\n%s", r.Err(), log)
		}
		p.set(func(p *pipeline) { p.unhealed = nil })
		pass(2 * time.Minute)
		if log := r.log.String(); strings.Count(log, "reconciled again") != 1 || r.Err() != nil {
			t.Errorf("after the outage (%v) the log has\n%s", r.Err(), log)
		}
		r.stop()
	})
}
