package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// A projector whose stores do not answer is not ready. /readyz and the log say what it
// waits for, even before the first attempt has failed.
func TestProjectorSaysWhatItWaitsFor(t *testing.T) { scene(t, projectorSaysWhatItWaitsFor) }

func projectorSaysWhatItWaitsFor(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(200, 61))
	store := s.standIns("delay the store's answers").Mongo
	store.FailCommands(mongoemu.CommandFault{AppName: harness.ProjectorApp, Times: -1, Block: 10 * time.Second})
	s.env["projector-0"] = []string{"PENSTOCK_SESION_HOLD=1m"}
	projector := s.startProjector(0)
	s.await("a warning of the misspelt variable", func() bool {
		return strings.Contains(s.log(projector), "PENSTOCK_SESION_HOLD is not known; did you mean PENSTOCK_SESSION_HOLD?")
	})
	const waits = "reach the read models at"
	s.await("a /readyz that says what the projector waits for", func() bool {
		status, text := readiness(t, projector)
		return status == http.StatusServiceUnavailable && strings.Contains(text, waits)
	})
	s.await("a line in the log", func() bool { return strings.Contains(s.log(projector), `"waitsTo":"`+waits) })
	store.ClearFaults()
	s.startPublisher(0)
	s.load(time.Second)
	s.invariants()
}

// A pipeline owns its names when the broker has given sessions of the subscription, and not
// before. So a misspelt subscription can be corrected, and a first start waits for a broker
// that cannot be reached.
func TestMisspeltSubscriptionOwnsNothing(t *testing.T) { scene(t, misspeltSubscriptionOwnsNothing) }

func misspeltSubscriptionOwnsNothing(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(200, 62))
	broker := s.standIns("refuse links")
	unchanged := func() {
		t.Helper()
		for _, db := range []*mongo.Database{s.models, s.state} {
			if n, err := db.Collection("pipeline_owners").CountDocuments(t.Context(), bson.D{}); n != 0 || err != nil {
				t.Errorf("%d names of database %s have owners: %v", n, db.Name(), err)
			}
		}
		if names, err := s.models.ListCollectionNames(t.Context(), bson.D{}); len(names) != 0 || err != nil {
			t.Errorf("the database of the read models has %v, %v", names, err)
		}
	}

	s.env["projector-0"] = []string{"AZURE_SERVICEBUS_SUBSCRIPTION_NAME=fitl"}
	misspelt := s.startProjector(0)
	s.await("the end of the projector", func() bool { return !misspelt.Running() })
	if log := s.log(misspelt); misspelt.Err() == nil || !strings.Contains(log, "subscription fitl") || !strings.Contains(log, "the broker refuses sessions") {
		t.Errorf("ended with %v:\n%s", misspelt.Err(), log)
	}
	unchanged()

	delete(s.env, "projector-0")
	if err := broker.RefuseLinks(settleTimeout(), "amqp:internal-error"); err != nil {
		t.Fatal(err)
	}
	projector := s.startProjector(0)
	s.await("a /readyz that says what the projector waits for", func() bool {
		status, text := readiness(t, projector)
		return status == http.StatusServiceUnavailable && strings.Contains(text, "waits to reach subscription") && strings.Contains(text, "the last attempt: ")
	})
	unchanged()
	if err := broker.RefuseLinks(0, "amqp:internal-error"); err != nil {
		t.Fatal(err)
	}
	s.startPublisher(0)
	s.load(time.Second)
	s.invariants()
}
