package e2e_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// TestEventStoreShardedByAnotherKey runs the services through a mongos, over events that
// are sharded by another field than their aggregate id. It covers a scan from the
// beginning, a killed leader, an interrupted stream, and a scan after the history is lost.
func TestEventStoreShardedByAnotherKey(t *testing.T) { scene(t, eventStoreShardedByAnotherKey) }

func eventStoreShardedByAnotherKey(t *testing.T) {
	t.Helper()
	if suite.kind != harness.KindEmbedded {
		t.Skipf("the backend %q is whatever its servers are: this test needs a mongos that it can break", suite.kind)
	}
	w := shop.New(events, 44)
	backend, err := openEmbedded(t, harness.EmbeddedOptions{Sharded: true, Record: 2*events + 10_000})
	if err != nil {
		t.Fatal(err)
	}
	s := newScenarioOver(t, w, backend)
	s.shardEvents()

	s.load(3 * time.Second)
	s.start(2, 1)
	s.awaitPublished(0.3)
	first := s.leader()
	if log, err := os.ReadFile(first.Log); err != nil || !strings.Contains(string(log), "periodicNoopIntervalSecs") {
		t.Errorf("the publisher does not say that idle shards delay it: %v", err)
	}
	first.Kill()
	s.awaitPublished(0.6)
	s.await("a stream to interrupt", func() bool { return backend.InterruptStreams() > 0 })
	s.awaitPublished(0.8)
	s.leader().Kill()
	s.finishLoad()
	backend.LoseHistory()
	s.startPublisher(2)
	s.invariants()
	if scans := s.metric("publisher", "penstock_publisher_scans_total", "reason", "history_lost"); scans == 0 {
		t.Error("the publisher did not scan the event store: its token was not lost")
	}
}

// shardEvents shards the collection of events by the aggregates' type. That key excludes
// the unique index, so it creates an index that is not unique and suffices.
func (s *scenario) shardEvents() {
	s.t.Helper()
	shard := func() error {
		return s.client.Database("admin").RunCommand(s.t.Context(), bson.D{
			{Key: "shardCollection", Value: s.events.Database().Name() + "." + s.events.Name()},
			{Key: "key", Value: bson.D{{Key: "aggregateType", Value: 1}}},
		}).Err()
	}
	if shard() == nil {
		s.t.Fatal("a unique index that does not begin with the shard key is accepted")
	}
	if err := s.events.Indexes().DropAll(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	if err := shard(); err != nil {
		s.t.Fatal(err)
	}
	_, err := s.events.Indexes().CreateOne(s.t.Context(), mongo.IndexModel{
		Keys: bson.D{{Key: "aggregateId", Value: 1}, {Key: "eventId", Value: 1}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}
