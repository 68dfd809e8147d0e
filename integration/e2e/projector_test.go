package e2e_test

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// A write that a projector has sent before it was killed may be carried out long after
// another one has done the same. The late write must match nothing.
func TestProjectorKilledUnderLoad(t *testing.T) { scene(t, projectorKilledUnderLoad) }

func projectorKilledUnderLoad(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, shop.New(events, 11), harness.TopicOptions{
		// In case its sessions stay locked when its connections break.
		LockDuration: 5 * time.Second,
	})
	s.start(1, 2)
	s.load(4 * time.Second)
	for n, share := range []float64{0.2, 0.5} {
		s.awaitPublished(share)
		s.holdUpdates()
		s.kill("projector", n)
		s.startProjector(n)
	}
	s.awaitHeldUpdates()
	s.invariants()
}

func TestEverythingRestarted(t *testing.T) { scene(t, everythingRestarted) }

func everythingRestarted(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(events, 12))
	s.start(2, 2)
	s.load(4 * time.Second)
	s.awaitPublished(0.5)
	s.Kill()
	s.start(2, 2)
	s.checkTerms("published", s.invariants().Epochs, 2)
}

// loseLocks runs a publisher and two projectors under load, and repeatedly removes the
// locks of their sessions.
func (s *scenario) loseLocks() {
	s.t.Helper()
	broker := capability[lockLoser](s, "lose session locks")
	s.start(1, 2)
	s.load(4 * time.Second)
	lost := 0
	for _, share := range []float64{0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8} {
		s.awaitPublished(share)
		n, err := broker.LoseSessionLocks()
		if err != nil {
			s.t.Fatal(err)
		}
		lost += n
	}
	if lost == 0 {
		s.t.Error("no session was held when its lock was to be lost")
	}
}

// If event ids only increase, a later event does not show that one is missing. A late or
// repeated event must not be mistaken for an applied one. The SDK's receiver can deliver a
// successor first, so each receiver has its own run.
func TestSessionLocksLostInAnIncreasingSequence(t *testing.T) {
	inParallel(t)
	for _, receiver := range []string{"amqp", "sdk"} {
		runScene(t, receiver, func(t *testing.T) {
			t.Helper()
			s := newScenarioOn(t, shop.New(events/4, 17), harness.TopicOptions{}, "PENSTOCK_SEQUENCE=increasing", "PENSTOCK_RECEIVER="+receiver)
			s.loseLocks()
			s.invariants()
		})
	}
}

func TestBrokerThrottles(t *testing.T) { scene(t, brokerThrottles) }

func brokerThrottles(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(events, 14))
	broker := capability[throttler](s, "throttle on request")
	s.start(1, 2)
	s.load(3 * time.Second)
	s.awaitPublished(0.3)
	// The rest of the load is stored while the broker refuses sends.
	broker.Throttle(5 * time.Second)
	s.release()
	s.await("a send that is refused", func() bool {
		broker.Throttle(5 * time.Second)
		return s.metric("publisher", "penstock_publisher_throttled_total") > 0
	})
	s.invariants()
}

// An ended link returns its error for all later calls, while its connection stays open. The
// error is no reason to stop, or to give up an event that did not cause it.
func TestBrokerDetachesLinks(t *testing.T) { scene(t, brokerDetachesLinks) }

func brokerDetachesLinks(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(events, 18))
	broker := capability[linkDetacher](s, "detach the broker's links")
	s.start(1, 2)
	s.load(4 * time.Second)
	for i, condition := range []string{
		"com.microsoft:timeout", "amqp:link:message-size-exceeded", "amqp:not-allowed", "amqp:unauthorized-access",
		"amqp:not-found", "com.microsoft:entity-disabled", "amqp:internal-error",
	} {
		s.awaitPublished(0.1 * float64(i+1))
		if err := broker.DetachLinks(condition); err != nil {
			t.Fatal(err)
		}
	}
	s.checkTerms("published", s.invariants().Epochs, 1)
}

// A poison event stops its aggregate in its projection, and no other.
func TestPoisonEvent(t *testing.T) { scene(t, poisonEvent) }

func poisonEvent(t *testing.T) {
	t.Helper()
	w := shop.New(events, 16)
	// The order's quantity becomes a string, which no expression can multiply.
	poisoned, at := "", int64(0)
	for i := range w.Events {
		if ev := &w.Events[i]; ev.EventType == "ItemAddedToOrderEvent" && ev.EventID == 3 && poisoned == "" {
			ev.Payload = bson.D{{Key: "sku", Value: "x"}, {Key: "quantity", Value: "two"}, {Key: "priceCents", Value: int64(1)}}
			poisoned, at = ev.AggregateID, ev.EventID
		}
	}
	s := newScenario(t, w)
	s.until[poisoned], s.deadLettered = at-1, 1
	s.start(1, 2)
	s.load(2 * time.Second)
	s.invariants()

	var marker struct {
		ID struct {
			Projection  string `bson:"projection"`
			AggregateID string `bson:"aggregateId"`
		} `bson:"_id"`
		EventID int64 `bson:"eventId"`
		Head    int64 `bson:"head"`
	}
	last := int64(0)
	for _, ev := range w.Events {
		if ev.AggregateID == poisoned {
			last = ev.EventID
		}
	}
	s.await("the marker at the aggregate's last event", func() bool {
		return s.state.Collection("parked").FindOne(t.Context(), bson.D{}).Decode(&marker) == nil && marker.Head == last
	})
	if marker.ID.Projection != "orders" || marker.ID.AggregateID != poisoned || marker.EventID != at {
		t.Errorf("parked %+v, not orders/%s at %d", marker, poisoned, at)
	}
	if n, err := s.state.Collection("parked").CountDocuments(t.Context(), bson.D{}); err != nil || n != 1 {
		t.Errorf("%d aggregates are parked (%v), not 1", n, err)
	}
}

// A document that is no event is quarantined if the publisher sees it first, and otherwise
// dead-lettered. It stops no aggregate.
func TestDocumentThatBreaksTheContract(t *testing.T) { scene(t, documentThatBreaksTheContract) }

func documentThatBreaksTheContract(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(events/2, 17))
	s.start(1, 1)
	s.load(time.Second)
	s.awaitPublished(0.3)
	if _, err := s.events.InsertOne(t.Context(), bson.D{
		{Key: "_id", Value: "broken"}, {Key: "aggregateId", Value: "user-00001"}, {Key: "eventId", Value: "seven"}, {Key: "eventType", Value: "Broken"},
	}); err != nil {
		t.Fatal(err)
	}
	s.await("the document in the quarantine", func() bool {
		n, err := s.state.Collection("quarantine").CountDocuments(t.Context(), bson.D{})
		return err == nil && n == 1
	})
	if _, err := s.events.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: "broken"}}); err != nil {
		t.Fatal(err)
	}
	s.invariants()
}
