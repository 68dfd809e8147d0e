package e2e_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// A publisher that cannot read its pause does not work, because it may be paused. It is not
// ready and reports the reason, so a rollout stops before it ends the old processes.
func TestPublisherThatCannotReadItsPauseIsNotReady(t *testing.T) {
	scene(t, publisherThatCannotReadItsPauseIsNotReady)
}

func publisherThatCannotReadItsPauseIsNotReady(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	// A pause that somebody has written by hand, with a wrong type.
	pauses := s.state.Collection("pauses")
	unreadable := bson.D{{Key: "_id", Value: bson.D{{Key: "service", Value: "publisher"}, {Key: "name", Value: "events"}}}, {Key: "who", Value: 7}}
	if _, err := pauses.InsertOne(t.Context(), unreadable); err != nil {
		t.Fatal(err)
	}
	s.insert(counted("a", 1, one))
	publisher := s.startPublisher(0)
	s.await("a /readyz that names the pause", func() bool {
		status, text := readiness(t, publisher)
		return status == http.StatusServiceUnavailable && strings.Contains(text, "it is not known whether the service is paused, so nothing works: read the pause of the publisher: ")
	})
	if log, err := os.ReadFile(publisher.Log); err != nil || !strings.Contains(string(log), "pause not read; nothing works until it is known whether the service is paused") {
		t.Errorf("the log does not say why nothing works (%v)", err)
	}
	if n := s.published(); n != 0 {
		t.Errorf("%d events are published, though the service may be paused", n)
	}
	if _, err := pauses.DeleteMany(t.Context(), bson.D{}); err != nil {
		t.Fatal(err)
	}
	s.awaitPublishedEvents(1)
	s.await("a publisher that is ready", func() bool {
		status, _ := readiness(t, publisher)
		return status == http.StatusOK
	})
}
