package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/proc"
	"github.com/penstock-cdc/penstock/integration/verify"
	"github.com/penstock-cdc/penstock/integration/virtual"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// scenario is one test's pipeline over a backend of its own.
type scenario struct {
	*harness.Pipeline
	t        *testing.T
	backend  backend
	programs harness.Programs
	workload *workload.Workload
	client   *mongo.Client
	events   *mongo.Collection
	models   *mongo.Database
	state    *mongo.Database
	// env are variables of single processes, by name.
	env map[string][]string
	// until is the last event that counts, for each aggregate that was parked.
	until map[string]int64
	// started are all processes, including those that have ended.
	started []*harness.Process
	// release lets the load store the events that it holds back. loaded is closed when the
	// load has ended; it is nil before the load begins.
	release func()
	loaded  chan struct{}
}

// newScenario opens a backend with an empty topic and an empty event store. No service runs
// yet.
func newScenario(t *testing.T, w *workload.Workload) *scenario {
	t.Helper()
	return newScenarioOn(t, w, harness.TopicOptions{})
}

// newScenarioOn is newScenario with options of the topic and variables of the projectors.
func newScenarioOn(t *testing.T, w *workload.Workload, topic harness.TopicOptions, projectorEnv ...string) *scenario {
	t.Helper()
	backend, err := open(t, topic, len(w.Events))
	if err != nil {
		t.Fatal(err)
	}
	return newScenarioOver(t, w, backend, projectorEnv...)
}

// newScenarioOver is newScenarioOn over an open backend, which the scenario closes.
func newScenarioOver(t *testing.T, w *workload.Workload, backend backend, projectorEnv ...string) *scenario {
	t.Helper()
	t.Cleanup(func() {
		switch err := backend.Close(); {
		case errors.Is(err, harness.ErrLeftBehind):
			t.Log(err)
		case err != nil:
			t.Error(err)
		}
	})
	connecting := options.Client().ApplyURI(backend.MongoURI())
	programs := harness.Programs(suite.services)
	env := receivers(projectorEnv)
	if b, ok := backend.(*virtualBackend); ok {
		connecting.SetDialer(b.dialer(virtual.MongoDB))
		programs = b
	}
	client, err := mongo.Connect(connecting)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	pipeline, err := harness.NewPipeline(backend, harness.PipelineOptions{
		Programs: programs, Dir: t.TempDir(), Projections: w.Projections, ProjectorEnv: projectorEnv,
		ProcessEnv: env,
	})
	if err != nil {
		t.Fatal(err)
	}
	databases := backend.Databases()
	s := &scenario{
		Pipeline: pipeline, t: t, backend: backend, programs: programs, workload: w, client: client,
		events: client.Database(databases.Events).Collection(harness.EventsCollection),
		models: client.Database(databases.ReadModels),
		state:  client.Database(databases.State),
		until:  make(map[string]int64),
		env:    env,
	}
	t.Cleanup(s.end)
	_, err = s.events.Indexes().CreateOne(t.Context(), workload.Index())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// receivers gives the second projector of a scenario the receiver of the Azure SDK; the
// first one has Penstock's own. So every scenario with two projectors tests its faults with
// both receivers. A scenario whose variables name a receiver uses only that one.
func receivers(projectorEnv []string) map[string][]string {
	for _, variable := range projectorEnv {
		if strings.HasPrefix(variable, "PENSTOCK_RECEIVER=") {
			return make(map[string][]string)
		}
	}
	return map[string][]string{"projector-1": {"PENSTOCK_RECEIVER=sdk"}}
}

// end ends the load and the processes. It fails the test if a process has crashed, even if
// another one has taken over its work. If the test has failed, it shows the ends of the
// logs.
func (s *scenario) end() {
	if s.loaded != nil {
		<-s.loaded // the test's context, which has ended, ends it
	}
	for _, process := range s.started {
		if !process.Running() && crashed(process.Err()) {
			s.t.Errorf("%s crashed: %v", process.Name, process.Err())
		}
	}
	s.Kill()
	if !s.t.Failed() {
		return
	}
	shown := make(map[string]struct{})
	for _, process := range s.started {
		if _, again := shown[process.Log]; again {
			continue // the process was started more than once
		}
		shown[process.Log] = struct{}{}
		s.t.Logf("%s:\n%s", process.Name, tail(process.Log))
	}
}

// crashed reports whether a process has crashed. Ends by SIGKILL and ends with a reported
// error are no crashes: for example, a leader that has lost its lease exits if its work
// does not stop in time.
func crashed(err error) bool {
	const exitFailure = 1
	if status, ok := errors.AsType[statusError](err); ok {
		return status != exitFailure
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err != nil
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return status.Signal() != syscall.SIGKILL
	}
	return status.ExitStatus() != exitFailure
}

// tail returns the end of a log.
func tail(path string) string { return proc.Tail(path, 40) }

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
	s.started = append(s.started, process)
	return process
}

func (s *scenario) startProjector(n int) *harness.Process {
	s.t.Helper()
	process, err := s.StartProjector(fmt.Sprintf("projector-%d", n))
	if err != nil {
		s.t.Fatal(err)
	}
	s.started = append(s.started, process)
	return process
}

// projectionsFile writes projections to a file of their own, and returns its path.
func (s *scenario) projectionsFile(projections string) (path string) {
	s.t.Helper()
	path = filepath.Join(s.t.TempDir(), "projections.yaml")
	if err := os.WriteFile(path, []byte(projections), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *scenario) ready() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), settleTimeout())
	defer cancel()
	if err := s.AwaitReady(ctx); err != nil {
		s.t.Fatal(err)
	}
}

// load stores the workload's events in the background, over about that time. It holds back
// the last tenth until finishLoad, so that events remain to be published after the latest
// fault.
func (s *scenario) load(over time.Duration) {
	const batches = 50
	events := s.workload.Events
	released := make(chan struct{})
	s.release, s.loaded = sync.OnceFunc(func() { close(released) }), make(chan struct{})
	ctx := s.t.Context()
	go func() {
		defer close(s.loaded)
		tick := time.NewTicker(max(over/batches, time.Millisecond))
		defer tick.Stop()
		size := len(events)/batches + 1
		for from := 0; from < len(events); from += size {
			if from >= len(events)/10*9 {
				select {
				case <-released:
				case <-ctx.Done():
					return
				}
			}
			if _, err := s.events.InsertMany(ctx, events[from:min(len(events), from+size)]); err != nil {
				if ctx.Err() == nil {
					s.t.Errorf("store the events: %v", err)
				}
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
}

// finishLoad lets the load store the events that it holds back, and waits for its end.
func (s *scenario) finishLoad() {
	s.release()
	<-s.loaded
}

// await polls until the condition holds.
func (s *scenario) await(what string, holds func() bool) {
	s.t.Helper()
	awaitHolds(s.t, what, holds)
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

// invariants ends every scenario. It waits until every read model equals the fold of the
// event store and every message is settled. Then it checks the read models again, because
// late and repeated messages must not have changed them. It also checks that the topic kept
// the order and misses nothing.
func (s *scenario) invariants() {
	s.t.Helper()
	s.finishLoad()
	s.awaitReadModels()
	// A rebuild reads the event store, so the read models can be right before the publisher is
	// done.
	s.await("every event on the topic", func() bool {
		events := s.workload.Events
		if n, err := s.backend.Published(); err != nil || n < len(events) {
			return false
		}
		accepted, err := s.backend.Accepted()
		return err == nil && len(accepted)-verify.Topic(accepted, events).Repeats >= len(events) &&
			s.metric("publisher", "penstock_publisher_inflight_events") == 0
	})
	// It is unknown whether the emulator in the container counts messages.
	if suite.kind != harness.KindContainers {
		s.await("all messages settled, none of them in the dead-letter queue", func() bool {
			backlog, err := s.backend.Backlog()
			return err == nil && backlog == harness.Backlog{}
		})
	}
	if report := s.compare(); !report.OK() {
		s.t.Errorf("%d of %d read models are right after all messages are settled; all were right before:\n%s",
			report.Right, report.Expected, strings.Join(report.Findings, "\n"))
	}
	accepted, err := s.backend.Accepted()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, finding := range verify.Topic(accepted, s.workload.Events).Findings {
		s.t.Errorf("on the topic: %s", finding)
	}
}

// awaitReadModels waits until every read model is right, as long as their number grows. How
// fast it grows depends on the machine.
func (s *scenario) awaitReadModels() {
	s.t.Helper()
	standstill := time.NewTimer(settleTimeout())
	defer standstill.Stop()
	for most := 0; ; {
		begun := time.Now()
		report := s.compare()
		// Comparing costs CPU too, so leave most of the time to the services.
		pause := max(250*time.Millisecond, 4*time.Since(begun))
		if isVirtual(s.t) {
			pause = time.Second
		}
		if report.OK() {
			s.t.Logf("%d of %d read models of %d events are right", report.Right, report.Expected, report.Events)
			return
		}
		if report.Right > most {
			most = report.Right
			standstill.Reset(settleTimeout())
		}
		select {
		case <-time.After(pause):
		case <-standstill.C:
			s.t.Fatalf("%d of %d read models are right, no more for %s:\n%s",
				report.Right, report.Expected, settleTimeout(), strings.Join(report.Findings, "\n"))
		}
	}
}

// compare compares the read models with the fold of the event store.
func (s *scenario) compare() *verify.Report {
	s.t.Helper()
	report, err := verify.ReadModels(s.t.Context(), s.events, s.models, s.workload.Oracle, s.until)
	if err != nil {
		s.t.Fatal(err)
	}
	return report
}

// metric adds up a metric of the running services of a kind.
func (s *scenario) metric(prefix, family string, labels ...string) float64 {
	s.t.Helper()
	var sum float64
	for _, process := range s.Running() {
		if !strings.HasPrefix(process.Name, prefix) {
			continue
		}
		sum += s.scrape(process).Sum(family, labels...)
	}
	return sum
}

// scrape returns the metrics of a process. It returns none if the process is ending: the
// admin port closes before the process has ended.
func (s *scenario) scrape(process *harness.Process) harness.Metrics {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), settleTimeout())
	defer cancel()
	for {
		metrics, err := process.Metrics(ctx)
		if err == nil {
			return metrics
		}
		select {
		case <-time.After(pollInterval()):
		case <-process.Exited():
			return nil
		case <-ctx.Done():
			s.t.Fatal(err)
		}
	}
}
