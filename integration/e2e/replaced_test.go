package e2e_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// A stream that began at now keeps its start if its collection is dropped and restored: the older
// events stay unpublished.
func TestRestoredCollectionKeepsTheStart(t *testing.T) { scene(t, restoredCollectionKeepsTheStart) }

func restoredCollectionKeepsTheStart(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	insertOld := func() {
		t.Helper()
		if _, err := s.events.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "old"}, {Key: "aggregateId", Value: "old"}, {Key: "aggregateType", Value: "Counter"}, {Key: "eventId", Value: 1}, {Key: "eventType", Value: "Counted"}, {Key: "timestamp", Value: time.Now().Add(-time.Hour)}, {Key: "payload", Value: one}}); err != nil {
			t.Fatal(err)
		}
	}
	insertOld()
	s.env["publisher-0"] = []string{"PENSTOCK_START=now"}
	s.start(1, 1)
	s.insert(counted("a", 1, one))
	s.await("the first event since the start", func() bool { return s.published() == 1 })
	s.leader().Kill()
	if err := s.events.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	createIndex(t, s.events)
	insertOld()
	s.insert(counted("a", 1, one), counted("a", 2, one))
	s.refused(s.startPublisher(1), "publisher checkpoint set start --why")
	s.publisherCommand(0, "checkpoint", "set", "start", "--yes", "--why=restored")
	next := s.startPublisher(2)
	s.await("a scan that leaves out the older event", func() bool {
		log, err := os.ReadFile(next.Log)
		return err == nil && strings.Contains(string(log), `"olderThanStart":1`)
	})
	s.await("the events since the start", func() bool { return s.count("a") == "n=2 after event 2" })
	if n := s.published(); n > 3 { // a/1 twice
		t.Errorf("%d events are on the topic", n)
	}
}

// stored marks the load as finished.
func (s *scenario) stored() {
	s.release, s.loaded = func() {}, make(chan struct{})
	close(s.loaded)
}

// createIndex makes the collection with the index that a publisher needs.
func createIndex(t *testing.T, collection *mongo.Collection) {
	t.Helper()
	_, err := collection.Indexes().CreateOne(t.Context(), workload.Index())
	if err != nil {
		t.Fatal(err)
	}
}
