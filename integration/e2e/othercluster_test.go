package e2e_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// TestMongoDBIsRestoredToAnotherCluster checks that a copy of all databases on another
// cluster can be used, with messages of the old one in the subscription and new events in
// the copy. The services refuse the copy until they are told that it is theirs; the projectors
// compare only the cluster's name. Then the publisher scans the copy, because its oplog does
// not have the resume token.
func TestMongoDBIsRestoredToAnotherCluster(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	type refusal struct{ process, remedy, says string }
	for name, copied := range map[string]struct {
		replicaSet string
		refusals   []refusal
	}{
		"with another name": {"dr", []refusal{
			{"publisher-0", "publisher checkpoint release", `cluster: recorded \"replica set rs0\", now \"replica set dr\"`},
			{"projector-0", "projector owners release", "replica set dr"},
		}},
		"with the same name, on other hosts": {"rs0", []refusal{
			{"publisher-0", "publisher checkpoint release", "members of the cluster: recorded "},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			needsStandIns(t, "it brings stand-ins of its own: two clusters")
			t.Parallel()
			const events = 2000
			servers, err := harness.StartEmbedded(harness.EmbeddedOptions{Record: 4 * events})
			if err != nil {
				t.Fatal(err)
			}
			s := newScenarioOver(t, shop.New(events, 73), servers, quickSweeps)
			p := newProcedure(s)
			p.says("A restored copy under another name counts as another event store: release the checkpoint and the names as above.")
			p.says("a copy under the same name as another event store, if none of the copy's hosts belonged to the old cluster")
			s.stored() // the test stores the events itself
			s.start(1, 1)
			s.insert(s.workload.Events[:1000]...)
			s.awaitReadModels()
			s.stopped(s.projectors()[0])
			s.insert(s.workload.Events[1000:1400]...)
			s.awaitPublished(0.7)
			s.awaitLiveSaved()
			for _, process := range s.Running() {
				s.stopped(process)
			}

			everything := s.dump(s.events.Database(), s.state, s.models)
			old := servers.Mongo
			servers.Mongo = mongoemutest.Start(t, mongoemu.Config{ReplicaSet: copied.replicaSet})
			if err := old.Close(); err != nil {
				t.Fatal(err)
			}
			s.reconnect()
			s.restore(everything)
			s.insert(s.workload.Events[1400:1700]...)

			for _, refused := range copied.refusals {
				start := s.startPublisher
				if refused.process == "projector-0" {
					start = s.startProjector
				}
				process := start(0)
				s.await("the end of "+process.Name, func() bool { return !process.Running() })
				if log := s.log(process); !strings.Contains(log, refused.says) {
					t.Errorf("%s does not say %q:\n%s", process.Name, refused.says, tail(process.Log))
				}
				p.says(refused.remedy)
				if refused.process == "projector-0" {
					s.releaseOwners(process)
					continue
				}
				s.releaseCheckpoint(process)
			}
			s.start(2, 2)
			s.await("a scan of the copy", func() bool { return s.metric("publisher", "penstock_publisher_scans_total") > 0 })
			s.insert(s.workload.Events[1700:]...)
			s.restarted()
			s.invariants()
		})
	}
}

// reconnect connects the test to the backend's present event store.
func (s *scenario) reconnect() {
	s.t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(s.backend.MongoURI()).SetServerSelectionTimeout(time.Minute))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	databases := s.backend.Databases()
	s.client = client
	s.events = client.Database(databases.Events).Collection(harness.EventsCollection)
	s.models, s.state = client.Database(databases.ReadModels), client.Database(databases.State)
}

// restarted restarts all processes, one after the other, as `kubectl rollout restart` does.
func (s *scenario) restarted() {
	s.t.Helper()
	for _, process := range s.Running() {
		s.stopped(process)
		kind, number, _ := strings.Cut(process.Name, "-")
		n, err := strconv.Atoi(number)
		if err != nil {
			s.t.Fatal(err)
		}
		next := map[string]func(int) *harness.Process{"publisher": s.startPublisher, "projector": s.startProjector}[kind](n)
		ctx, cancel := context.WithTimeout(s.t.Context(), settleTimeout())
		defer cancel()
		if err := next.AwaitReady(ctx); err != nil {
			s.t.Fatal(err)
		}
	}
}
