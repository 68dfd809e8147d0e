package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/proc"
	"github.com/penstock-cdc/penstock/integration/verify"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// Numbers of processes. The first act kills the leading publisher.
const publishers, projectors = 2, 2

// stallTimeout is how long a run may make no progress before it ends, and how long a service
// may take to start. A run may take longer in all, the more events it has.
const stallTimeout = time.Minute

// Options configure a run.
type Options struct {
	Workload *workload.Workload
	// Backend stays open after the run.
	Backend  *harness.Embedded
	Binaries harness.Binaries
	// LoadTime is how long storing the events of the first act takes; 0 stores them as
	// fast as possible. The events of the second act are stored more slowly.
	LoadTime time.Duration
	// Dir gets the services' logs and the projections file.
	Dir  string
	View *View
}

// Result is the outcome of a run.
type Result struct {
	Report   *verify.Report
	Status   Status
	Failover time.Duration
	// Took is the time from the first stored event to the last projected one in the first
	// act. Projected is the number of these events. P50 and P99 are percentiles of the time
	// from insert to read model in that act.
	Took      time.Duration
	Projected int
	P50, P99  time.Duration
	// Rebuilds are the outcomes of the second act, one for each changed projection.
	Rebuilds []RebuildResult
	// RebuildP50 and RebuildP99 are the times from insert to read model in the second act.
	RebuildP50, RebuildP99 time.Duration
	// Erasure is the outcome of the third act; nil if it was not reached.
	Erasure *ErasureResult
}

// errStalled ends a run that makes no progress.
var errStalled = errors.New("no event was projected for too long")

// Run runs the workload. An error means that the run could not finish or that its read
// models could not be compared. The Result says whether they are right.
func Run(ctx context.Context, opts Options) (*Result, error) {
	client, err := mongo.Connect(options.Client().ApplyURI(opts.Backend.MongoURI()).SetAppName("sandbox"))
	if err != nil {
		return nil, fmt.Errorf("connect to the event store: %w", err)
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	events, err := prepare(ctx, client)
	if err != nil {
		return nil, err
	}
	pipeline, err := harness.NewPipeline(opts.Backend, harness.PipelineOptions{
		Programs: opts.Binaries, Dir: opts.Dir, Projections: opts.Workload.Projections,
	})
	if err != nil {
		return nil, err
	}
	defer pipeline.Kill()

	r := &run{opts: opts, pipeline: pipeline, events: events, models: client.Database(harness.ReadModelsDatabase)}
	r.observer = verify.NewObserver(r.models, opts.Workload)
	r.monitor = &monitor{
		pipeline: pipeline, backend: opts.Backend, observer: r.observer,
		total: len(opts.Workload.Events), start: time.Now(), phase: phaseStarting,
		sessions: make(map[string]int), duplicates: make(map[string]int),
	}
	return r.run(ctx)
}

// prepare makes the event store's collection with the index that Penstock needs.
func prepare(ctx context.Context, client *mongo.Client) (*mongo.Collection, error) {
	events := client.Database(harness.EventsDatabase).Collection(harness.EventsCollection)
	_, err := events.Indexes().CreateOne(ctx, workload.Index())
	if err != nil {
		return nil, fmt.Errorf("create the event store's index: %w", err)
	}
	return events, nil
}

type run struct {
	opts     Options
	pipeline *harness.Pipeline
	events   *mongo.Collection
	models   *mongo.Database
	observer *verify.Observer
	monitor  *monitor
}

func (r *run) run(ctx context.Context) (*Result, error) {
	// The observer and the view run until the scenario ends.
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	group, scenario := errgroup.WithContext(watching)
	opened := make(chan struct{})
	group.Go(func() error { return r.observer.Run(watching, func() { close(opened) }) })
	group.Go(func() error { r.monitor.run(watching, r.opts.View); return nil })

	result := new(Result)
	group.Go(func() error {
		defer stopWatching()
		select {
		case <-opened:
		case <-scenario.Done():
			return context.Cause(scenario)
		}
		return r.scenario(scenario, result)
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return result, nil
}

// firstAct is the first act's share of the events. The other events are stored slowly times
// more slowly.
const (
	firstAct = 0.8
	slowly   = 10
)

func (r *run) scenario(ctx context.Context, result *Result) error {
	if err := r.startServices(ctx); err != nil {
		return err
	}
	events := r.opts.Workload.Events
	first := max(1, int(firstAct*float64(len(events))))
	err := r.failover(ctx, events[:first], result)
	if err == nil {
		err = r.change(ctx, events[first:], result)
	}
	if err == nil {
		result.Erasure, err = r.erase(ctx)
	}
	if err != nil && !errors.Is(err, errStalled) {
		return err
	}
	if err != nil {
		r.opts.View.Note(fmt.Sprintf("%v; the services' logs are in %s", err, r.opts.Dir))
	}
	return r.finish(context.WithoutCancel(ctx), result)
}

// failover is the first act: events are stored, and the leader is killed after half of
// them.
func (r *run) failover(ctx context.Context, events []workload.Event, result *Result) error {
	r.monitor.setPhase(phaseRunning)
	begun, release := time.Now(), make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return r.load(ctx, loadPart{events: events, over: r.opts.LoadTime, release: release})
	})
	group.Go(func() error {
		if err := r.awaitProjected(ctx, len(events)/2); err != nil {
			return err
		}
		r.monitor.setPhase(phaseFailover)
		took, err := killLeader(ctx, r.pipeline, r.opts.View, func() { close(release) })
		if err != nil {
			return err
		}
		result.Failover = took
		r.monitor.setPhase(phaseRunning)
		return r.awaitProjected(ctx, len(events))
	})
	err := group.Wait()
	result.Took, result.Projected = time.Since(begun), r.observer.Projected()
	result.P50, result.P99 = percentiles(r.observer.Latencies())
	return err
}

// change is the second act: projections are rebuilt and verified while the other events
// are stored slowly. After the verification the remaining events are stored at once.
func (r *run) change(ctx context.Context, events []workload.Event, result *Result) error {
	perEvent := slowly * r.opts.LoadTime / time.Duration(result.Projected)
	hurry := make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return r.load(ctx, loadPart{events: events, over: perEvent * time.Duration(len(events)), hurry: hurry})
	})
	group.Go(func() (err error) {
		if result.Rebuilds, err = r.rebuild(ctx); err != nil {
			return err
		}
		result.RebuildP50, result.RebuildP99 = percentiles(r.observer.Latencies())
		r.monitor.setPhase(phaseRunning)
		close(hurry)
		return r.awaitProjected(ctx, len(r.opts.Workload.Events))
	})
	return group.Wait()
}

// finish stops the services cleanly and compares the read models.
func (r *run) finish(ctx context.Context, result *Result) error {
	r.monitor.setPhase(phaseComparing)
	r.monitor.scrape(ctx)
	if err := r.pipeline.Stop(ctx); err != nil {
		return err
	}
	oracle := r.opts.Workload.Oracle
	if result.Rebuilds != nil {
		oracle = r.opts.Workload.Change.Oracle
	}
	report, err := verify.ReadModels(ctx, r.events, r.models, oracle, nil)
	if err != nil {
		return err
	}
	r.monitor.setPhase(phaseDone)
	result.Report, result.Status = report, r.monitor.status()
	r.opts.View.Show(result.Status)
	return nil
}

func (r *run) startServices(ctx context.Context) error {
	for n := range publishers {
		if _, err := r.pipeline.StartPublisher(fmt.Sprintf("%s%d", publisherPrefix, n)); err != nil {
			return err
		}
	}
	for n := range projectors {
		if _, err := r.pipeline.StartProjector(fmt.Sprintf("projector-%d", n)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stallTimeout, fmt.Errorf("not within %s", stallTimeout))
	defer cancel()
	if err := r.pipeline.AwaitReady(ctx); err != nil {
		return err
	}
	for _, process := range r.pipeline.Running() {
		r.opts.View.Note(statusPage(process))
	}
	_, err := r.pipeline.AwaitLeader(ctx)
	return err
}

// awaitProjected waits until the read models show n events. It returns errStalled if they
// make no progress.
func (r *run) awaitProjected(ctx context.Context, n int) error {
	last, since := 0, time.Now()
	return proc.Await(ctx, sampleEvery, "events in read models", func() (bool, error) {
		projected := r.observer.Projected()
		if projected > last {
			last, since = projected, time.Now()
		}
		if projected < n && time.Since(since) > stallTimeout {
			return false, errStalled
		}
		return projected >= n, nil
	})
}

// percentiles returns the latencies that 50 % and 99 % of the events did not exceed.
func percentiles(sorted []time.Duration) (p50, p99 time.Duration) {
	if len(sorted) == 0 {
		return 0, 0
	}
	return sorted[(len(sorted)-1)/2], sorted[(len(sorted)-1)*99/100]
}
