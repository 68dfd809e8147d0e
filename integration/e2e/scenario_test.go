package e2e_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/verify"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// scenario is one test's pipeline over a backend of its own.
type scenario struct {
	*harness.Pipeline
	t        *testing.T
	backend  backend
	workload *workload.Workload
	client   *mongo.Client
	events   *mongo.Collection
	models   *mongo.Database
	state    *mongo.Database
	// until bounds what counts of an aggregate that was parked.
	until  map[string]int64
	loaded chan struct{}
}

// newScenario opens a backend with an empty topic and an empty event store; no
// service runs yet.
func newScenario(t *testing.T, w *workload.Workload) *scenario {
	t.Helper()
	return newScenarioOn(t, w, harness.TopicOptions{})
}

// newScenarioOn is newScenario for a test that cares what its topic is like, or sets
// variables of its projectors.
func newScenarioOn(t *testing.T, w *workload.Workload, topic harness.TopicOptions, projectorEnv ...string) *scenario {
	t.Helper()
	backend, err := suite.backends.Open(t.Context(), topic, len(w.Events))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := mongo.Connect(options.Client().ApplyURI(backend.MongoURI()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	pipeline, err := harness.NewPipeline(backend, harness.PipelineOptions{
		Binaries: suite.services, Dir: t.TempDir(), Projections: w.Projections, ProjectorEnv: projectorEnv,
	})
	if err != nil {
		t.Fatal(err)
	}
	databases := backend.Databases()
	s := &scenario{
		Pipeline: pipeline, t: t, backend: backend, workload: w, client: client,
		events: client.Database(databases.Events).Collection(harness.EventsCollection),
		models: client.Database(databases.ReadModels),
		state:  client.Database(databases.State),
		until:  make(map[string]int64), loaded: make(chan struct{}),
	}
	t.Cleanup(s.end)
	_, err = s.events.Indexes().CreateOne(t.Context(), mongo.IndexModel{
		Keys:    bson.D{{Key: "aggregateId", Value: 1}, {Key: "eventId", Value: 1}},
		Options: options.Index().SetUnique(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// end kills what still runs and, where the test has failed, shows the logs' ends.
func (s *scenario) end() {
	processes := s.Running()
	s.Kill()
	if !s.t.Failed() {
		return
	}
	for _, process := range processes {
		s.t.Logf("%s:\n%s", process.Name, tail(process.Log))
	}
}

// tail is the end of a log.
func tail(path string) string {
	log, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(log), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// start starts publishers and projectors and waits until they are ready.
func (s *scenario) start(publishers, projectors int) {
	s.t.Helper()
	for n := range publishers {
		s.startPublisher(n)
	}
	for n := range projectors {
		s.startProjector(n)
	}
	s.ready()
}

func (s *scenario) startPublisher(n int) *harness.Process {
	s.t.Helper()
	process, err := s.StartPublisher(fmt.Sprintf("publisher-%d", n))
	if err != nil {
		s.t.Fatal(err)
	}
	return process
}

func (s *scenario) startProjector(n int) *harness.Process {
	s.t.Helper()
	process, err := s.StartProjector(fmt.Sprintf("projector-%d", n))
	if err != nil {
		s.t.Fatal(err)
	}
	return process
}

func (s *scenario) ready() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), settleTimeout())
	defer cancel()
	if err := s.AwaitReady(ctx); err != nil {
		s.t.Fatal(err)
	}
}

// load stores the workload's events in the background, over about that time.
func (s *scenario) load(over time.Duration) {
	const batches = 50
	events := s.workload.Events
	go func() {
		defer close(s.loaded)
		tick := time.NewTicker(max(over/batches, time.Millisecond))
		defer tick.Stop()
		size := len(events)/batches + 1
		for from := 0; from < len(events); from += size {
			if _, err := s.events.InsertMany(s.t.Context(), events[from:min(len(events), from+size)]); err != nil {
				s.t.Errorf("store the events: %v", err)
				return
			}
			select {
			case <-tick.C:
			case <-s.t.Context().Done():
				return
			}
		}
	}()
}

// await polls until the condition holds.
func (s *scenario) await(what string, holds func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), settleTimeout())
	defer cancel()
	tick := time.NewTicker(pollInterval())
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("%s: not within %s", what, settleTimeout())
		}
	}
}

// awaitPublished waits until the broker has accepted a share of the events.
func (s *scenario) awaitPublished(share float64) {
	s.t.Helper()
	due := int(share * float64(len(s.workload.Events)))
	s.await(fmt.Sprintf("%d events published", due), func() bool {
		published, err := s.backend.Published()
		return err == nil && published >= due
	})
}

// invariants waits until every read model equals the fold of the event store,
// and then checks that the topic kept the order and misses nothing. It is the end
// of every scenario.
func (s *scenario) invariants() *verify.TopicReport {
	s.t.Helper()
	<-s.loaded
	ctx, cancel := context.WithTimeout(s.t.Context(), settleTimeout())
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		report, err := verify.ReadModels(ctx, s.events, s.models, s.workload.Fold, verify.Options{Until: s.until})
		if err != nil {
			s.t.Fatal(err)
		}
		if report.OK() {
			s.t.Logf("%d of %d read models of %d events are right", report.Right, report.Expected, report.Events)
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("%d of %d read models are right after %s:\n%s",
				report.Right, report.Expected, settleTimeout(), strings.Join(report.Findings, "\n"))
		}
	}
	accepted, err := s.backend.Accepted()
	if err != nil {
		s.t.Fatal(err)
	}
	topic := verify.Topic(accepted, s.workload.Events)
	for _, finding := range topic.Findings {
		s.t.Errorf("on the topic: %s", finding)
	}
	return topic
}

// metric sums a metric over the running services of a kind.
func (s *scenario) metric(prefix, family string, labels ...string) float64 {
	s.t.Helper()
	var sum float64
	for _, process := range s.Running() {
		if !strings.HasPrefix(process.Name, prefix) {
			continue
		}
		metrics, err := process.Metrics(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		sum += metrics.Sum(family, labels...)
	}
	return sum
}
