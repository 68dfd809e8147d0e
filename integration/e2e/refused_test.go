package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/verify"
)

// The topic permanently refuses some events. The publisher quarantines exactly those and
// publishes all others in the same term. The projectors read the missing events from the
// event store.
func TestTopicRefusesEventsPermanently(t *testing.T) {
	scenesInParallel(t)
	for _, condition := range []string{"amqp:not-allowed", "com.microsoft:argument-error"} {
		runScene(t, condition, func(t *testing.T) {
			t.Helper()
			s := newScenario(t, shop.New(events, 31))
			broker := capability[messageRefuser](s, "refuse events")
			type key struct {
				aggregateID string
				eventID     int64
			}
			last := make(map[string]int64)
			for i := range s.workload.Events {
				last[s.workload.Events[i].AggregateID] = s.workload.Events[i].EventID
			}
			refused := make(map[key]bool)
			for i := range s.workload.Events {
				ev := &s.workload.Events[i]
				// Each refused event has a successor, which shows the projectors that it is
				// missing.
				if ev.EventID == 2 && last[ev.AggregateID] > 3 && len(refused) < 20 {
					refused[key{ev.AggregateID, ev.EventID}] = true
				}
			}
			broker.RefuseMessages(func(aggregateID string, eventID int64) bool { return refused[key{aggregateID, eventID}] }, condition)
			s.start(1, 2)
			s.load(4 * time.Second)
			s.finishLoad()
			s.awaitReadModels()

			accepted, err := s.backend.Accepted()
			if err != nil {
				t.Fatal(err)
			}
			// Insert each quarantined event into the list, before its successor.
			var settled []verify.Accepted
			inserted := make(map[key]bool)
			for _, m := range accepted {
				if before := (key{m.AggregateID, m.EventID - 1}); refused[before] && !inserted[before] {
					inserted[before] = true
					settled = append(settled, verify.Accepted{AggregateID: before.aggregateID, EventID: before.eventID, SessionID: m.SessionID, Epoch: m.Epoch})
				}
				if refused[key{m.AggregateID, m.EventID}] {
					t.Errorf("event %s is on the topic", m.MessageID)
				}
				settled = append(settled, m)
			}
			topic := verify.Topic(settled, s.workload.Events)
			for _, finding := range topic.Findings {
				t.Errorf("on the topic: %s", finding)
			}
			s.checkTerms("published", topic.Epochs, 1)
			s.checkTerms("began", int(s.epoch()), 1)
			var records []struct {
				AggregateID string `bson:"aggregateId"`
				EventID     int64  `bson:"eventId"`
				Reason      string `bson:"reason"`
				Detail      string `bson:"detail"`
			}
			cursor, err := s.state.Collection("quarantine").Find(t.Context(), bson.D{})
			if err == nil {
				err = cursor.All(t.Context(), &records)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				if !refused[key{r.AggregateID, r.EventID}] || r.Reason != "refused" || !strings.Contains(r.Detail, condition) {
					t.Errorf("quarantine has %+v", r)
				}
			}
			if len(records) != len(refused) {
				t.Errorf("%d events are in the quarantine, want %d", len(records), len(refused))
			}
		})
	}
}

// A failover of the namespace: for a while it answers every request with not-found. Both
// services continue afterwards without a restart, because they have worked before.
func TestNamespaceRefusesAllRequestsTemporarily(t *testing.T) {
	scenesInParallel(t)
	for _, condition := range []string{"amqp:not-found", "amqp:unauthorized-access"} {
		runScene(t, condition, func(t *testing.T) {
			t.Helper()
			s := newScenario(t, shop.New(events, 32))
			broker := capability[linkRefuser](s, "refuse links")
			s.start(1, 2)
			s.load(4 * time.Second)
			s.awaitPublished(0.2)
			if err := broker.RefuseLinks(settleTimeout(), condition); err != nil {
				t.Fatal(err)
			}
			s.await("the publisher to say that the topic refuses it", func() bool {
				return s.metric("publisher", "penstock_publisher_topic_refused") == 1
			})
			if err := broker.RefuseLinks(8*time.Second, condition); err != nil {
				t.Fatal(err)
			}
			s.checkTerms("published", s.invariants().Epochs, 1)
			for _, process := range s.started {
				if !process.Running() {
					t.Errorf("%s has ended: %v", process.Name, process.Err())
				}
			}
		})
	}
}

// A topic that never existed means a wrong name: the publisher ends and says so.
func TestTopicThatDoesNotExistEndsThePublisher(t *testing.T) {
	scene(t, topicThatDoesNotExistEndsThePublisher)
}

func topicThatDoesNotExistEndsThePublisher(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(1, 33))
	broker := capability[linkRefuser](s, "refuse links")
	if err := broker.RefuseLinks(time.Hour, "amqp:not-found"); err != nil {
		t.Fatal(err)
	}
	process := s.startPublisher(0)
	ctx, cancel := context.WithTimeout(t.Context(), settleTimeout())
	defer cancel()
	if err := process.AwaitExit(ctx); err == nil || ctx.Err() != nil {
		t.Fatalf("the publisher ended with %v, want an error", err)
	}
	if log := tail(process.Log); !strings.Contains(log, "does not exist: create it, or correct AZURE_SERVICEBUS_TOPIC_NAME") {
		t.Errorf("the publisher ended with\n%s", log)
	}
}
