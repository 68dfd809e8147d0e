package e2e_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// A publisher whose collection is replaced publishes what the change stream has of it, and ends
// with the command that begins with the new collection.
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
	createIndex(t, s.events)
	s.insert(s.workload.Events...)
	s.refused(s.startPublisher(0), "events collection was dropped, renamed or replaced", "publisher checkpoint set beginning --why")
	s.publisherCommand(0, "checkpoint", "set", "beginning", "--yes", "--why=rotated")
	s.startPublisher(0)
	s.awaitPublished(1)
	s.stored()
	s.invariants()
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
