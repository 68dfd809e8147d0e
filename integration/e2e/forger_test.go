package e2e_test

import (
	"math"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
	"github.com/penstock-cdc/penstock/pkg/event"
)

// forger returns a function that sends an event to the topic that the event store lacks.
func (s *scenario) forger() func(messageID, aggregate string, id int64, payload bson.D) {
	s.t.Helper()
	send := s.eventSender()
	return func(messageID, aggregate string, id int64, payload bson.D) {
		s.t.Helper()
		send(messageID, counted(aggregate, id, payload))
	}
}

// eventSender returns a function that sends an event to the topic.
func (s *scenario) eventSender() func(messageID string, e workload.Event) {
	s.t.Helper()
	sender, err := s.busClient().NewSender(s.backend.Bus().Topic, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return func(messageID string, e workload.Event) {
		s.t.Helper()
		aggregate := e.AggregateID
		body, err := bson.Marshal(bson.D{
			{Key: "aggregateId", Value: e.AggregateID}, {Key: "aggregateType", Value: e.AggregateType}, {Key: "eventId", Value: e.EventID},
			{Key: "eventType", Value: e.EventType}, {Key: "timestamp", Value: e.Timestamp}, {Key: "payload", Value: e.Payload},
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

// A forged next event is applied until a comparison
// of the content corrects the read model. A forged event that no event store can ever have
// leaves a marker, until the projection is built anew.
func TestForgedEventsAreCorrected(t *testing.T) { scene(t, forgedEventsAreCorrected) }

func forgedEventsAreCorrected(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{}, "PENSTOCK_RECONCILE=10s", "PENSTOCK_RECONCILE_CONTENT=true")
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
	s.projectorCommand(0, "projections", "rebuild", "counts", "--allow-parked=1", "--why=forged", "--yes")
	s.projectorCommand(0, "projections", "watch", "counts")
	// The markers of the former generation go with it.
	s.await("one parked aggregate", func() bool {
		parked := s.projectorList("parked", "list")
		return len(parked) == 1 && parked[0]["aggregateId"] == "a"
	})
	s.insert(counted("b", 2, one), counted("b", 3, one))
	s.awaitCounts("b: n=3 after event 3", "b")
	s.awaitCounts("c: n=1 after event 1", "c")
	if parked := s.projectorList("parked", "list"); len(parked) != 1 {
		t.Errorf("parked: %v", parked)
	}
}
