package e2e_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// events is the size of most scenarios: enough for a fault to hit in the middle.
const events = 6000

func TestLeaderKilledUnderLoad(t *testing.T) {
	inParallel(t)
	s := newScenario(t, shop.New(events, 1))
	s.start(2, 1)
	s.load(4 * time.Second)
	s.awaitPublished(0.4)
	first := s.leader()
	first.Kill()
	s.await("a successor", func() bool {
		leader, err := s.Leader(t.Context())
		return err == nil && leader.Name != first.Name
	})
	topic := s.invariants()
	if topic.Epochs != 2 {
		t.Errorf("%d terms published, not 2", topic.Epochs)
	}
}

func TestLeaderStopsUnderLoadAndHandsOver(t *testing.T) {
	inParallel(t)
	s := newScenario(t, shop.New(events, 2))
	s.start(2, 1)
	s.load(4 * time.Second)
	s.awaitPublished(0.4)
	first := s.leader()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := first.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	topic := s.invariants()
	if topic.Epochs != 2 {
		t.Errorf("%d terms published, not 2", topic.Epochs)
	}
	// A clean handover saves the token behind the last acknowledgement.
	if topic.Repeats != 0 {
		t.Errorf("a clean handover published %d events twice", topic.Repeats)
	}
}

func TestLeaderStoppedForLongerThanItsLease(t *testing.T) {
	inParallel(t)
	s := newScenario(t, shop.New(events, 3))
	s.start(2, 1)
	s.load(6 * time.Second)
	s.awaitPublished(0.3)
	first := s.leader()
	if err := first.Signal(sigStop); err != nil {
		t.Fatal(err)
	}
	s.await("a successor", func() bool { return s.epoch() == 2 })
	s.awaitPublished(0.6)
	if err := first.Signal(sigContinue); err != nil {
		t.Fatal(err)
	}
	s.invariants()
	if epoch := s.epoch(); epoch != 2 {
		t.Errorf("the term of epoch %d holds the checkpoint, not the successor's 2", epoch)
	}
}

func TestTokenRewound(t *testing.T) {
	inParallel(t)
	// Without duplicate detection: every repeat reaches the projector.
	s := newScenarioOn(t, shop.New(events, 4), harness.TopicOptions{DuplicateDetectionWindow: -1})
	s.start(1, 2)
	s.load(time.Second)
	s.awaitPublished(0.1)
	var early bson.Raw
	s.await("a checkpoint", func() bool {
		early, _ = s.state.Collection("checkpoints").FindOne(t.Context(), bson.D{}).Raw()
		_, err := early.LookupErr("token")
		return err == nil
	})
	s.awaitPublished(1)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := s.leader().Stop(ctx); err != nil {
		t.Fatal(err)
	}
	rewound, err := s.state.Collection("checkpoints").UpdateOne(t.Context(), bson.D{},
		bson.D{{Key: "$set", Value: bson.D{{Key: "token", Value: early.Lookup("token")}}}})
	if err != nil || rewound.ModifiedCount != 1 {
		t.Fatalf("rewind the token: %v, %+v", err, rewound)
	}
	s.startPublisher(0)
	s.await("duplicates at the projectors", func() bool {
		return s.metric("projector", "penstock_projector_events_total", "outcome", "duplicate") > 0
	})
	if topic := s.invariants(); topic.Repeats == 0 {
		t.Error("the rewound publisher repeated nothing")
	}
}

func TestStreamInterrupted(t *testing.T) {
	inParallel(t)
	s := newScenario(t, shop.New(events, 5))
	store := capability[streamInterrupter](s, "interrupt change streams")
	s.start(1, 1)
	s.load(4 * time.Second)
	for _, share := range []float64{0.2, 0.4, 0.6, 0.8} {
		s.awaitPublished(share)
		if store.InterruptStreams() == 0 {
			t.Error("there was no stream to interrupt")
		}
	}
	if topic := s.invariants(); topic.Epochs != 1 {
		t.Errorf("%d terms published: an interrupted stream is reopened within its term", topic.Epochs)
	}
}

func TestEventsFromBeforeTheStart(t *testing.T) {
	inParallel(t)
	s := newScenario(t, shop.New(events, 6))
	s.load(0)
	<-s.loaded
	s.start(1, 1)
	s.invariants()
}

func TestHistoryLost(t *testing.T) {
	inParallel(t)
	s := newScenario(t, shop.New(events, 7))
	store := capability[historyLoser](s, "lose the oplog")
	s.start(1, 1)
	s.load(3 * time.Second)
	s.awaitPublished(0.2)
	s.leader().Kill()
	// What was stored meanwhile is in the event store alone.
	<-s.loaded
	store.LoseHistory()
	s.startPublisher(0)
	s.invariants()
	if scans := s.metric("publisher", "penstock_publisher_scans_total", "reason", "history_lost"); scans == 0 {
		t.Error("the publisher did not scan the event store: its token was not lost")
	}
}
