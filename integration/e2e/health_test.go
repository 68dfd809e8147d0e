package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// get returns what a process's admin server answers. The status is 0 if it does not answer.
func get(t *testing.T, p *harness.Process, path string) (status int, text string) {
	t.Helper()
	status, body, err := p.Get(t.Context(), path, nil)
	if err != nil {
		return 0, err.Error()
	}
	return status, string(body)
}

func readiness(t *testing.T, p *harness.Process) (status int, text string) {
	t.Helper()
	return get(t, p, "/readyz")
}

// A broker that does not answer is no reason to replace pods, and no reason to call them
// healthy. /readyz, the status page, the metric, the status commands and the log say the
// same, and that it is over.
func TestUnreachableBrokerIsNotHealthy(t *testing.T) { scene(t, unreachableBrokerIsNotHealthy) }

func unreachableBrokerIsNotHealthy(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(events, 36))
	broker := s.standIns("refuse links")
	s.start(1, 1)
	s.load(20 * time.Second)
	s.awaitPublished(0.05)
	publisher, projector := s.started[0], s.started[1]
	for _, p := range s.started {
		s.await("an ok /readyz of "+p.Name, func() bool {
			status, text := readiness(t, p)
			return status == http.StatusOK && text == "ok\n"
		})
	}

	if err := broker.RefuseLinks(settleTimeout(), "amqp:internal-error"); err != nil {
		t.Fatal(err)
	}
	const condition = "broker-unreachable"
	for _, p := range s.started {
		s.await("a degraded /readyz of "+p.Name, func() bool {
			status, text := readiness(t, p)
			return status == http.StatusOK && strings.HasPrefix(text, "degraded\n") && strings.Contains(text, condition+": ")
		})
		if state := s.statusPage(p).State; state != "degraded" {
			t.Errorf("the page of %s says %q", p.Name, state)
		}
	}
	s.await("the same verdict of the commands", func() bool {
		ofPublisher, _ := s.publisherCommand(0, "status")
		ofProjector, _ := s.projectorCommand(0, "status")
		return strings.Contains(ofPublisher, condition) && strings.Contains(ofProjector, ": degraded\n") && strings.Contains(ofProjector, condition)
	})
	s.await("the same verdict of the metrics", func() bool {
		return s.metric("publisher", "penstock_publisher_health_conditions", "condition", condition) == 1 &&
			s.metric("projector", "penstock_projector_health_conditions", "condition", condition) == 1
	})

	// The log follows one look later than the metric.
	for _, p := range s.started {
		s.await("the beginning in the log of "+p.Name, func() bool { return strings.Contains(s.log(p), `"health condition began"`) })
	}

	if err := broker.RefuseLinks(0, "amqp:internal-error"); err != nil {
		t.Fatal(err)
	}
	s.invariants()
	for _, p := range []*harness.Process{publisher, projector} {
		s.await("a recovered "+p.Name, func() bool {
			_, text := readiness(t, p)
			return !strings.Contains(text, condition)
		})
		s.await("the end in the log of "+p.Name, func() bool {
			return strings.Contains(s.log(p), `"health condition ended"`)
		})
	}
}

// A projector that has lost the right to write its registration settles no events. Its verdict
// and "projector status" name the right, and do not say that no projector runs.
func TestRefusedRegistrationIsNamed(t *testing.T) { scene(t, refusedRegistrationIsNamed) }

func refusedRegistrationIsNamed(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(events, 37))
	servers := s.standIns("refuse the projectors' updates")
	s.start(1, 1)
	s.load(20 * time.Second)
	s.awaitPublished(0.05)
	projector := s.started[1]
	servers.Forbid("update", "projectors")
	s.await("an unregistered projector", func() bool {
		status, text := readiness(t, projector)
		return status == http.StatusOK && strings.Contains(text, "unregistered: ") && strings.Contains(text, "(Unauthorized)") && strings.Contains(text, "readWrite on the state database")
	})
	alive := bson.D{{Key: "$expr", Value: bson.D{{Key: "$gt", Value: bson.A{"$until", "$$NOW"}}}}}
	s.await("an expired registration", func() bool {
		n, err := s.state.Collection("projectors").CountDocuments(t.Context(), alive)
		return err == nil && n == 0
	})
	if stdout, _ := s.projectorCommand(1, "status"); !strings.Contains(stdout, ": degraded\n") || !strings.Contains(stdout, "unregistered: ") || strings.Contains(stdout, "no-projector") {
		t.Errorf("the status is\n%s", stdout)
	}
	servers.Mongo.ClearFaults()
	s.invariants()
	s.await("a registered projector", func() bool {
		stdout, _ := s.projectorCommand(0, "status")
		return strings.Contains(stdout, ": up for ") && !strings.Contains(stdout, "unregistered")
	})
}

// A store that answers slowly is named, with the slowest write in the status.
func TestSlowStoreIsNotHealthy(t *testing.T) { scene(t, slowStoreIsNotHealthy) }

func slowStoreIsNotHealthy(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(events, 38))
	store := s.standIns("reply late").Mongo
	// The publisher keeps its lease all the same.
	s.env["publisher-0"] = []string{"PENSTOCK_LEASE_DURATION=60s", "PENSTOCK_LEASE_RENEW_DEADLINE=40s"}
	s.start(1, 1)
	s.load(6 * time.Minute)
	s.awaitPublished(0.05)
	projector := s.started[1]
	store.SetLatency(1200 * time.Millisecond)
	s.await("a slow store", func() bool {
		_, text := readiness(t, projector)
		return strings.Contains(text, "store-slow: ")
	})
	s.await("the same in the status", func() bool {
		stdout, _ := s.projectorCommand(0, "status")
		return strings.Contains(stdout, "store-slow: ") && strings.Contains(stdout, "the slowest write took ")
	})
	store.SetLatency(0)
	s.invariants()
	s.await("a fast store", func() bool {
		_, text := readiness(t, projector)
		return !strings.Contains(text, "store-slow")
	})
}

// A publisher whose events collection has never existed is not ready, so a rollout with a wrong name
// stops. It becomes ready when the collection is there.
func TestPublisherWithoutACollectionIsNotReady(t *testing.T) {
	scene(t, publisherWithoutACollectionIsNotReady)
}

func publisherWithoutACollectionIsNotReady(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	s.env["publisher-0"] = []string{"PENSTOCK_EVENTS_COLLECTION=evnts"}
	publisher := s.startPublisher(0)
	s.await("a publisher that is not ready", func() bool {
		status, text := readiness(t, publisher)
		return status == http.StatusServiceUnavailable && strings.Contains(text, "events-collection-missing: collection evnts") && !strings.Contains(text, "startup")
	})
	if _, err := s.events.Database().Collection("evnts").Indexes().CreateOne(t.Context(), workload.Index()); err != nil {
		t.Fatal(err)
	}
	s.await("a ready publisher", func() bool {
		status, _ := readiness(t, publisher)
		return status == http.StatusOK
	})
}
