package e2e_test

import (
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// A write that a projector has sent before it was killed may be carried out long after
// another one has done the same. The late write must match nothing.
func TestProjectorKilledUnderLoad(t *testing.T) { scene(t, projectorKilledUnderLoad) }

func projectorKilledUnderLoad(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, shop.WithViews(events, 11), harness.TopicOptions{
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
			s := newScenarioOn(t, shop.WithViews(events/4, 17), harness.TopicOptions{}, "PENSTOCK_SEQUENCE=increasing", "PENSTOCK_RECEIVER="+receiver)
			s.loseLocks()
			s.invariants()
		})
	}
}

// An ended link returns its error for all later calls, while its connection stays open. The
// error is no reason to stop, or to give up an event that did not cause it.
func TestBrokerDetachesLinks(t *testing.T) { scene(t, brokerDetachesLinks) }

func brokerDetachesLinks(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.WithViews(events, 18))
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
