package bench

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/verify"
)

const (
	// latency is added to every frame between a service and the broker, each way.
	latency = 2 * time.Millisecond
	// plainFor is how long a plain loop is measured.
	plainFor = 8 * time.Second
	// plainSubscription is the plain projector's own.
	plainSubscription = "plain"
	// patience bounds a whole measurement.
	patience = 3 * time.Minute
)

// services builds both services, once.
var services func() (harness.Binaries, error)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "penstock-bench-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	services = sync.OnceValues(func() (harness.Binaries, error) { return harness.Build(context.Background(), dir) })
	status := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(status)
}

// setup is an environment with a loaded event store.
type setup struct {
	b        *testing.B
	ctx      context.Context //nolint:containedctx // a measurement's bound, shared by its steps
	backend  *harness.Embedded
	pipeline *harness.Pipeline
	client   *mongo.Client
	events   int
	fold     func() (*verify.Report, error)
	// before is an operation time from before the first event.
	before bson.Timestamp
}

// newSetup loads an event store. before runs when the store is still empty; nil for nothing.
func newSetup(b *testing.B, events int, publisherEnv, projectorEnv []string, before func(*setup)) *setup {
	b.Helper()
	binaries, err := services()
	must(b, err)
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	b.Cleanup(cancel)
	backend, err := harness.StartEmbedded(harness.EmbeddedOptions{
		Latency: latency, MoreSubscriptions: []string{plainSubscription},
	})
	must(b, err)
	b.Cleanup(func() { must(b, backend.Close()) })
	client, err := mongo.Connect(options.Client().ApplyURI(backend.MongoURI()))
	must(b, err)
	b.Cleanup(func() { _ = client.Disconnect(context.Background()) })

	w := shop.New(events, 1)
	pipeline, err := harness.NewPipeline(backend, harness.PipelineOptions{
		Binaries: binaries, Dir: b.TempDir(), Projections: w.Projections, PublisherEnv: publisherEnv, ProjectorEnv: projectorEnv,
	})
	must(b, err)
	b.Cleanup(pipeline.Kill)

	store := client.Database(harness.EventsDatabase).Collection(harness.EventsCollection)
	_, err = store.Indexes().CreateOne(ctx, mongo.IndexModel{
		Keys:    bson.D{{Key: "aggregateId", Value: 1}, {Key: "eventId", Value: 1}},
		Options: options.Index().SetUnique(true),
	})
	must(b, err)
	var hello struct {
		OperationTime bson.Timestamp `bson:"operationTime"`
	}
	must(b, client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello))
	s := &setup{
		b: b, ctx: ctx, backend: backend, pipeline: pipeline, client: client, events: events, before: hello.OperationTime,
		fold: func() (*verify.Report, error) {
			return verify.ReadModels(ctx, store, client.Database(harness.ReadModelsDatabase), w.Fold, verify.Options{})
		},
	}
	if before != nil {
		before(s)
	}
	_, err = store.InsertMany(ctx, w.Events)
	must(b, err)
	return s
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// await polls a count until it is reached, and returns the time from the first
// one counted to the last.
func (s *setup) await(what string, n int, count func() int) time.Duration {
	s.b.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var first time.Time
	for {
		counted := count()
		if counted > 0 && first.IsZero() {
			first = time.Now()
		}
		if counted >= n {
			return time.Since(first)
		}
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			s.b.Fatalf("%s: %d of %d after %s", what, counted, n, patience)
		}
	}
}

func (s *setup) accepted() int {
	accepted, _ := s.backend.TopicCounts()
	return accepted
}

func (s *setup) start(start func(string) (*harness.Process, error), name string) *harness.Process {
	s.b.Helper()
	process, err := start(name)
	must(s.b, err)
	return process
}

// report gives both rates and their ratio.
func (s *setup) report(plain, ours float64) {
	s.b.ReportMetric(plain, "plain-events/s")
	s.b.ReportMetric(ours, "events/s")
	s.b.ReportMetric(ours/plain, "times-plain")
	s.b.ReportMetric(0, "ns/op")
}

// BenchmarkPublisher publishes a stored history from the beginning.
func BenchmarkPublisher(b *testing.B) {
	// Enough that what is read ahead before the first send does not count for much.
	const events = 200_000
	for range b.N {
		s := newSetup(b, events, nil, nil, nil)

		started := time.Now()
		bounded, cancel := context.WithTimeout(s.ctx, plainFor)
		err := plainPublisher(bounded, s.client, s.backend.Bus(), s.before, events)
		cancel()
		must(b, ignoreEnd(bounded, err))
		plainDone := s.accepted()
		plain := float64(plainDone) / time.Since(started).Seconds()

		s.start(s.pipeline.StartPublisher, "publisher-0")
		took := s.await("published", events, func() int { return s.accepted() - plainDone })
		s.report(plain, events/took.Seconds())
	}
}

// BenchmarkProjector projects a published history: in sessions of one aggregate each, with
// both receivers, and in buckets.
func BenchmarkProjector(b *testing.B) {
	aggregate := []string{"PENSTOCK_SESSION_MODE=aggregate"}
	for _, mode := range []struct {
		name                 string
		publisher, projector []string
	}{
		{"aggregate", aggregate, nil},
		{"aggregate-sdk", aggregate, []string{"PENSTOCK_RECEIVER=sdk"}},
		{"bucket", []string{"PENSTOCK_SESSION_MODE=bucket", "PENSTOCK_SESSION_BUCKETS=64"}, nil},
		{"bucket-sdk", []string{"PENSTOCK_SESSION_MODE=bucket", "PENSTOCK_SESSION_BUCKETS=64"}, []string{"PENSTOCK_RECEIVER=sdk"}},
	} {
		b.Run(mode.name, func(b *testing.B) {
			for range b.N {
				measureProjector(b, mode.publisher, mode.projector)
			}
		})
	}
}

func measureProjector(b *testing.B, publisherEnv, projectorEnv []string) {
	b.Helper()
	// As in the chart, for a container of 512 MiB.
	projectorEnv = append(projectorEnv, "GOMEMLIMIT=460MiB")
	const events = 20_000
	s := newSetup(b, events, publisherEnv, projectorEnv, func(s *setup) {
		// A projection that starts over stored events is built from the event store. One that
		// started before the first event is live, which is what this measures.
		s.start(s.pipeline.StartProjector, "projector-0")
		must(b, s.pipeline.AwaitReady(s.ctx))
		must(b, s.pipeline.Stop(s.ctx))
	})
	s.start(s.pipeline.StartPublisher, "publisher-0")
	s.await("published", events, s.accepted)
	must(b, s.pipeline.Stop(s.ctx))

	bus := s.backend.Bus()
	bus.Subscription = plainSubscription
	started := time.Now()
	bounded, cancel := context.WithTimeout(s.ctx, plainFor)
	done, err := plainProjector(bounded, s.client, bus, events)
	cancel()
	must(b, err)
	plain := float64(done) / time.Since(started).Seconds()

	projector := s.start(s.pipeline.StartProjector, "projector-0")
	took := s.await("projected", events, func() int {
		counts, err := s.backend.Broker.Counts(s.backend.SubscriptionPath())
		must(b, err)
		return events - counts.Active
	})
	if used, err := projector.CPUTime(); err == nil {
		b.ReportMetric(float64(used.Microseconds())/events, "cpu-µs/event")
	}
	report, err := s.fold()
	must(b, err)
	if !report.OK() {
		b.Fatalf("%d of %d read models are right:\n%v", report.Right, report.Expected, fmt.Sprint(report.Findings))
	}
	s.report(plain, events/took.Seconds())
}
