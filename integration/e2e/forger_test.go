package e2e_test

import (
	"math"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/pkg/event"
)

// Somebody who may send to the topic, and not write events, changes no read model and stops
// no aggregate if the content comes from the event store.
func TestForgedEventsHaveNoEffect(t *testing.T) { scene(t, forgedEventsHaveNoEffect) }

func forgedEventsHaveNoEffect(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{},
		"PENSTOCK_TRUST=store", "PENSTOCK_GAP_TIMEOUT=1s", "PENSTOCK_RECONCILE=off", "PENSTOCK_LOG_LEVEL=debug")
	s.start(1, 1)
	s.insert(counted("a", 1, one), counted("b", 1, one), counted("c", 1, one), counted("c", 2, one))
	s.awaitCounts("a: n=1 after event 1, b: n=1 after event 1, c: n=2 after event 2", "a", "b", "c")

	forge := s.forger()
	thousand := bson.D{{Key: "n", Value: int64(1000)}}
	// The next event before the writer stores it, with the id that makes the broker drop the
	// real message; the last possible event; an event of an aggregate that does not exist;
	// and an event that the store has, with another content.
	forge("a/2", "a", 2, thousand)
	forge("forged-1", "b", math.MaxInt64, thousand)
	forge("forged-2", "ghost", 1, thousand)
	forge("forged-3", "c", 3, bson.D{{Key: "n", Value: "text"}})
	s.awaitDeadLetters(4)
	out, err := s.Projector(t.Context(), "deadletters", "list")
	if err != nil {
		t.Fatal(err)
	}
	if list := string(out.Stdout); strings.Count(list, "not_in_event_store") != 4 || strings.Count(list, "deadletters discard: the event store does not have the event") != 4 {
		t.Errorf("dead letters:\n%s%s", list, out.Stderr)
	}
	s.insert(counted("a", 2, one), counted("a", 3, one), counted("b", 2, one), counted("c", 3, one), counted("c", 4, one))
	s.awaitCounts("a: n=3 after event 3, b: n=2 after event 2, c: n=4 after event 4, ghost: mongo: no documents in result", "a", "b", "c", "ghost")
	// The event store has event 4, so its content is that of the store.
	forge("forged-4", "c", 4, thousand)
	s.insert(counted("c", 5, one))
	s.awaitCounts("c: n=5 after event 5", "c")
	if parked := s.projectorList("parked", "list"); len(parked) > 0 {
		t.Errorf("parked: %v", parked)
	}
}

// forger returns a function that sends an event to the topic that the event store lacks.
func (s *scenario) forger() func(messageID, aggregate string, id int64, payload bson.D) {
	s.t.Helper()
	sender, err := s.busClient().NewSender(s.backend.Bus().Topic, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return func(messageID, aggregate string, id int64, payload bson.D) {
		s.t.Helper()
		forged := counted(aggregate, id, payload)
		body, err := bson.Marshal(bson.D{
			{Key: "aggregateId", Value: forged.AggregateID}, {Key: "aggregateType", Value: forged.AggregateType}, {Key: "eventId", Value: forged.EventID},
			{Key: "eventType", Value: forged.EventType}, {Key: "timestamp", Value: forged.Timestamp}, {Key: "payload", Value: payload},
		})
		if err != nil {
			s.t.Fatal(err)
		}
		contentType := event.ContentTypeBSON
		if err := sender.SendMessage(s.t.Context(), &azservicebus.Message{
			MessageID: &messageID, SessionID: &aggregate, PartitionKey: &aggregate, ContentType: &contentType, Body: body,
		}, nil); err != nil {
			s.t.Fatal(err)
		}
	}
}

// If the content comes from the messages, a forged next event is applied until a comparison
// of the content corrects the read model. A forged event that no event store can ever have
// leaves a marker. A command finds and removes it, and no other.
func TestForgedEventsAreCorrected(t *testing.T) { scene(t, forgedEventsAreCorrected) }

func forgedEventsAreCorrected(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{}, "PENSTOCK_GAP_TIMEOUT=1s", "PENSTOCK_RECONCILE=10s", "PENSTOCK_RECONCILE_CONTENT=true")
	s.start(1, 1)
	s.insert(counted("a", 1, one), counted("b", 1, one))
	s.awaitCounts("a: n=1 after event 1, b: n=1 after event 1", "a", "b")
	forge := s.forger()
	forge("c/1", "c", 1, bson.D{{Key: "n", Value: int64(1000)}})
	s.awaitCounts("c: n=1000 after event 1", "c")
	s.insert(counted("c", 1, one))
	forge("forged", "b", math.MaxInt64, one)
	s.insert(counted("a", 2, bson.D{{Key: "n", Value: "text"}}))
	s.await("two parked aggregates", func() bool { return len(s.projectorList("parked", "list")) == 2 })
	if _, stderr := s.projectorCommand(1, "parked", "forget", "--aggregate=a", "--why=x", "--yes"); !strings.Contains(stderr, "no parked aggregate that matches waits for an event beyond the end of the event store") {
		t.Errorf("says %s", stderr)
	}
	if stdout, _ := s.projectorCommand(0, "parked", "forget", "--why=forged", "--yes"); !strings.Contains(stdout, "forgot the markers of 1 aggregate;") {
		t.Errorf("says %s", stdout)
	}
	if parked := s.projectorList("parked", "list"); len(parked) != 1 || parked[0]["aggregateId"] != "a" {
		t.Errorf("parked: %v", parked)
	}
	s.insert(counted("b", 2, one), counted("b", 3, one))
	s.awaitCounts("b: n=3 after event 3", "b")
	s.awaitCounts("c: n=1 after event 1", "c")
	if parked := s.projectorList("parked", "list"); len(parked) != 1 {
		t.Errorf("parked: %v", parked)
	}
}
