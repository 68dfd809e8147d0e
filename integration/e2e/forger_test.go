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
		body, err := bson.Marshal(e)
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
	send := s.eventSender()
	send("c/1", counted("c", 1, bson.D{{Key: "n", Value: int64(1000)}}))
	s.awaitCounts("c: n=1000 after event 1", "c")
	s.insert(counted("c", 1, one))
	send("forged", counted("b", math.MaxInt64, one))
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
