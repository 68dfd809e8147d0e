package e2e_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// A collection that is replaced while no publisher runs is scanned too. While no collection
// exists, the publisher reports that instead of idling.
func TestCollectionDroppedAndCreatedAgain(t *testing.T) { scene(t, collectionDroppedAndCreatedAgain) }

func collectionDroppedAndCreatedAgain(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(events, 42))
	s.start(1, 1)
	s.insert(s.workload.Events[:events/2]...)
	s.awaitPublished(0.5)
	s.leader().Kill()
	if err := s.events.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.startPublisher(0)
	s.ready()
	s.await("the publisher to miss its collection", func() bool {
		return s.metric("publisher", "penstock_publisher_source_missing") == 1
	})
	createIndex(t, s.events)
	s.insert(s.workload.Events...)
	s.awaitPublished(1)
	s.stored()
	s.invariants()
	if missing := s.metric("publisher", "penstock_publisher_source_missing"); missing != 0 {
		t.Error("the publisher still misses its collection")
	}
	if scans := s.metric("publisher", "penstock_publisher_scans_total", "reason", "collection_replaced"); scans != 1 {
		t.Errorf("%v scans of a replaced collection, not 1", scans)
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
