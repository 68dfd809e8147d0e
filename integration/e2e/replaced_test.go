package e2e_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/verify"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// A collection that is renamed to events while the publisher runs has its own history,
// which no change stream carries. The publisher must scan it.
func TestCollectionRenamedOverTheEventStore(t *testing.T) {
	scene(t, collectionRenamedOverTheEventStore)
}

func collectionRenamedOverTheEventStore(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(events, 41))
	s.start(1, 1)
	s.storeInto(s.events, s.workload.Events[:events/2])
	s.awaitPublished(0.5)

	successor := s.events.Database().Collection("successor")
	createIndex(t, successor)
	s.storeInto(successor, s.workload.Events)
	err := s.client.Database("admin").RunCommand(t.Context(), bson.D{
		{Key: "renameCollection", Value: s.events.Database().Name() + "." + successor.Name()},
		{Key: "to", Value: s.events.Database().Name() + "." + s.events.Name()},
		{Key: "dropTarget", Value: true},
	}).Err()
	if err != nil {
		t.Fatal(err)
	}
	s.awaitPublished(1)
	s.stored()
	s.invariants()
	if scans := s.metric("publisher", "penstock_publisher_scans_total", "reason", "collection_replaced"); scans != 1 {
		t.Errorf("%v scans of a replaced collection, not 1", scans)
	}
}

// A collection that is replaced while no publisher runs is scanned too. While no collection
// exists, the publisher reports that instead of idling.
func TestCollectionDroppedAndCreatedAgain(t *testing.T) { scene(t, collectionDroppedAndCreatedAgain) }

func collectionDroppedAndCreatedAgain(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(events, 42))
	s.start(1, 1)
	s.storeInto(s.events, s.workload.Events[:events/2])
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
	s.storeInto(s.events, s.workload.Events)
	s.awaitPublished(1)
	s.stored()
	s.invariants()
	if missing := s.metric("publisher", "penstock_publisher_source_missing"); missing != 0 {
		t.Error("the publisher still misses its collection")
	}
}

// A collection can be rotated several times while no publisher runs. What was inserted
// before each rotation is then only in the oplog, and must reach the topic first.
func TestCollectionRotatedWhileThePublisherIsBehind(t *testing.T) {
	scene(t, collectionRotatedWhileThePublisherIsBehind)
}

func collectionRotatedWhileThePublisherIsBehind(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(events, 43))
	quarter := len(s.workload.Events) / 4
	s.start(1, 0)
	s.storeInto(s.events, s.workload.Events[:quarter])
	s.awaitPublished(0.25)
	s.awaitSaved(s.leader())
	s.leader().Kill()

	s.storeInto(s.events, s.workload.Events[quarter:2*quarter])
	s.rename(s.events.Name(), "archive")
	createIndex(t, s.events)
	s.storeInto(s.events, s.workload.Events[2*quarter:3*quarter])
	// The second rotation prepares the new collection before it takes the name.
	createIndex(t, s.events.Database().Collection("successor"))
	s.rename(s.events.Name(), "archive-2")
	s.rename("successor", s.events.Name())
	s.storeInto(s.events, s.workload.Events[3*quarter:])

	s.startPublisher(0)
	s.awaitPublished(1)
	accepted, err := s.backend.Accepted()
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range verify.Topic(accepted, s.workload.Events).Findings {
		t.Errorf("on the topic: %s", finding)
	}
	if scans := s.metric("publisher", "penstock_publisher_scans_total", "reason", "collection_replaced"); scans != 1 {
		t.Errorf("%v scans of a replaced collection, not 1", scans)
	}
}

// rename renames a collection in the database of the event store.
func (s *scenario) rename(from, to string) {
	s.t.Helper()
	database := s.events.Database().Name()
	if err := s.client.Database("admin").RunCommand(s.t.Context(), bson.D{
		{Key: "renameCollection", Value: database + "." + from},
		{Key: "to", Value: database + "." + to},
	}).Err(); err != nil {
		s.t.Fatal(err)
	}
}

// storeInto stores all events in one request.
func (s *scenario) storeInto(collection *mongo.Collection, events []workload.Event) {
	s.t.Helper()
	if _, err := collection.InsertMany(s.t.Context(), events); err != nil {
		s.t.Fatal(err)
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
