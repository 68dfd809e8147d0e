package kube_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/controlplane"
	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/workload"
)

const (
	// leaseName is the name of the publishers' Lease and of their service account. The
	// chart uses it for a release with the name penstock.
	leaseName = "penstock-publisher"
	// publishers is the number of competing processes.
	publishers = 3
	// settleTimeout bounds each wait for a condition.
	settleTimeout = 90 * time.Second
	// poll is the interval at which a condition is checked.
	poll = 20 * time.Millisecond
	// maxEvents is more than any test stores.
	maxEvents = 100_000
)

// scenario has one test's publishers, over stand-ins and in a namespace of its own.
type scenario struct {
	*harness.Pipeline
	t        *testing.T
	control  *controlplane.ControlPlane
	account  controlplane.Account
	lease    timing
	backend  *harness.Embedded
	workload *workload.Workload
	events   *mongo.Collection
	models   *mongo.Database
	state    *mongo.Database
	load     *load
}

// newScenario starts three publishers and a projector under load, and returns when one
// publisher has led for a while.
func newScenario(t *testing.T, lease timing) *scenario {
	t.Helper()
	return newScenarioOn(t, lease, shared)
}

// newLonelyScenario has its own control plane, which the test may stop.
func newLonelyScenario(t *testing.T, lease timing) *scenario {
	t.Helper()
	dir := t.TempDir()
	return newScenarioOn(t, lease, func() (*controlplane.ControlPlane, error) {
		cp, err := newControlPlane(t.Context(), filepath.Join(dir, "control"))
		if err == nil {
			t.Cleanup(cp.Stop)
		}
		return cp, err
	})
}

func newScenarioOn(t *testing.T, lease timing, control func() (*controlplane.ControlPlane, error)) *scenario {
	t.Helper()
	cp, err := control()
	if errors.Is(err, controlplane.ErrNoTools) {
		t.Skip(err)
	}
	must(t, err)
	s := &scenario{
		t: t, control: cp, lease: lease, workload: shop.New(maxEvents, 1),
	}
	s.backend, err = harness.StartEmbedded(harness.EmbeddedOptions{Record: 2 * maxEvents})
	must(t, err)
	t.Cleanup(func() {
		if err := s.backend.Close(); err != nil {
			t.Error(err)
		}
	})
	s.openStore()
	s.openPipeline()
	t.Cleanup(s.end)
	for n := range publishers {
		s.startPublisher(publisher(n))
	}
	_, err = s.StartProjector("projector-0")
	must(t, err)
	s.ready()
	s.load = startLoad(t, s.events, s.workload.Events)
	s.awaitTermAfter(0)
	s.atAnyMoment()
	return s
}

// openStore makes the event store with the index that it needs.
func (s *scenario) openStore() {
	s.t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(s.backend.MongoURI()))
	must(s.t, err)
	s.t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	s.events = client.Database(harness.EventsDatabase).Collection(harness.EventsCollection)
	s.models = client.Database(harness.ReadModelsDatabase)
	s.state = client.Database(harness.StateDatabase)
	_, err = s.events.Indexes().CreateOne(s.t.Context(), workload.Index())
	must(s.t, err)
}

// openPipeline prepares the publishers. They share one service account, like the pods of a
// StatefulSet.
func (s *scenario) openPipeline() {
	s.t.Helper()
	binaries, err := services()
	must(s.t, err)
	namespace := fmt.Sprintf("leadership-%d", suite.namespaces.Add(1))
	s.account, err = s.control.ServiceAccount(s.t.Context(), namespace, leaseName, rules(s.t, s.control)...)
	must(s.t, err)
	dir := s.t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	must(s.t, s.control.WriteKubeconfig(kubeconfig, s.account))
	s.Pipeline, err = harness.NewPipeline(s.backend, harness.PipelineOptions{
		Programs: binaries, Dir: dir, Projections: s.workload.Projections,
		PublisherEnv: append(s.lease.env(), "PENSTOCK_ELECTION=kubernetes", "PENSTOCK_LEASE_NAME="+leaseName, "KUBECONFIG="+kubeconfig),
	})
	must(s.t, err)
}

// end kills the running processes. If the test has failed, it shows the ends of the logs.
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

// tail returns the end of a log.
func tail(path string) string {
	log, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := slices.DeleteFunc(strings.Split(string(log), "\n"), func(line string) bool {
		return strings.Contains(line, "Feature gate default state")
	})
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

func publisher(n int) string { return fmt.Sprintf("publisher-%d", n) }

func (s *scenario) startPublisher(name string) *harness.Process {
	s.t.Helper()
	process, err := s.StartPublisher(name)
	must(s.t, err)
	return process
}

// process returns the running process of that name.
func (s *scenario) process(name string) *harness.Process {
	s.t.Helper()
	for _, process := range s.Running() {
		if process.Name == name {
			return process
		}
	}
	s.t.Fatalf("%s does not run", name)
	return nil
}

func (s *scenario) ready() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), settleTimeout)
	defer cancel()
	must(s.t, s.AwaitReady(ctx))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
