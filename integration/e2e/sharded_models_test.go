package e2e_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// layout is the distribution of a collection in a sharded cluster.
type layout struct {
	key     bson.D
	unique  bool
	indexes []bson.M
}

// layout reads how a collection of read models is distributed.
func (s *scenario) layout(collection string) layout {
	s.t.Helper()
	namespace := s.models.Name() + "." + collection
	config := s.client.Database("config")
	var entry struct {
		Key    bson.D
		Unique bool
	}
	err := config.Collection("collections").FindOne(s.t.Context(), bson.D{{Key: "_id", Value: namespace}}).Decode(&entry)
	if err != nil {
		s.t.Fatalf("how %s is sharded: %v", namespace, err)
	}
	l := layout{key: entry.Key, unique: entry.Unique}
	cursor, err := s.models.Collection(collection).Indexes().List(s.t.Context())
	if err == nil {
		err = cursor.All(s.t.Context(), &l.indexes)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	for _, index := range l.indexes {
		delete(index, "ns")
	}
	return l
}

// administer runs a command of the database admin.
func (s *scenario) administer(command bson.D) {
	s.t.Helper()
	if err := s.client.Database("admin").RunCommand(s.t.Context(), command).Err(); err != nil {
		s.t.Fatal(err)
	}
}

// TestShardedReadModelsAreRebuilt checks that the next generation of a sharded read model
// is sharded in the same way when it is promoted: by a range of _id with a unique index, and by
// a hash of _id. Meanwhile events come and clients read. The build waits while the live
// collection has a zone.
func TestShardedReadModelsAreRebuilt(t *testing.T) { scene(t, shardedReadModelsAreRebuilt) }

func shardedReadModelsAreRebuilt(t *testing.T) {
	t.Helper()
	if suite.kind != harness.KindEmbedded {
		t.Skipf("the backend %q is whatever its servers are: this test needs a mongos and the right to set zones", suite.kind)
	}
	backend, err := openEmbedded(t, harness.EmbeddedOptions{Sharded: true, Record: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	declared := func(factor int) string {
		return tally("tallies", "tallies", factor) + tally("hashes", "hashes", factor)
	}
	s := &tallies{scenario: newScenarioOver(t, &workload.Workload{Projections: []byte("projections:\n" + declared(1))}, backend)}

	ranged, hashed := s.models.Name()+".tallies", s.models.Name()+".hashes"
	s.administer(bson.D{{Key: "shardCollection", Value: ranged}, {Key: "key", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "unique", Value: true}})
	s.administer(bson.D{{Key: "shardCollection", Value: hashed}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}})
	s.administer(bson.D{{Key: "addShardToZone", Value: "shard-0"}, {Key: "zone", Value: "eu"}})
	zone := func(name any) {
		s.administer(bson.D{
			{Key: "updateZoneKeyRange", Value: ranged}, {Key: "zone", Value: name},
			{Key: "min", Value: bson.D{{Key: "_id", Value: bson.MinKey{}}}}, {Key: "max", Value: bson.D{{Key: "_id", Value: "a-5"}}},
		})
	}
	zone("eu")
	if _, err := s.models.Collection("tallies").Indexes().CreateOne(t.Context(), mongo.IndexModel{
		Keys: bson.D{{Key: "_id", Value: 1}, {Key: "factor", Value: 1}}, Options: options.Index().SetUnique(true),
	}); err != nil {
		t.Fatal(err)
	}
	before := map[string]layout{"tallies": s.layout("tallies"), "hashes": s.layout("hashes")}
	if !before["tallies"].unique || len(before["hashes"].key) != 1 {
		t.Fatalf("the read models are not sharded as wanted: %+v", before)
	}

	s.start(1, 2)
	s.store(3)
	s.complete("tallies", 1)
	s.complete("hashes", 1)
	ends := []func(){s.watch("tallies"), s.watch("hashes")}
	s.declare(declared(2))
	s.startProjector(2)
	s.await("the build waits for the end of the zones", func() bool {
		b := s.entry("tallies").Building
		return b != nil && strings.Contains(b.Reason, "tallies has zones")
	})
	zone(nil)
	for s.entry("tallies").Live.Generation < 2 || s.entry("hashes").Live.Generation < 2 {
		s.store(1)
		s.await(fmt.Sprintf("event %d applied", s.next), func() bool {
			applied := bson.E{Key: "lastEventId", Value: s.next}
			return s.documents(s.models.Collection("tallies"), applied) == tallied && s.documents(s.models.Collection("hashes"), applied) == tallied
		})
		<-time.After(500 * time.Millisecond)
	}
	for _, name := range []string{"tallies", "hashes"} {
		s.live(name, 2)
	}
	s.store(1)
	for name, want := range before {
		s.complete(name, 2)
		if got := s.layout(name); !reflect.DeepEqual(got, want) {
			t.Errorf("generation 2 of %s lies as %+v, want %+v", name, got, want)
		}
	}
	for _, end := range ends {
		end()
	}
	results, err := s.Verify(t.Context())
	if err != nil || len(results) != 2 {
		t.Fatalf("verified %+v: %v", results, err)
	}
	for _, r := range results {
		if r.State != "done" || len(r.Findings) > 0 {
			t.Errorf("the verification of %s is %s: %s %v", r.Projection, r.State, r.Reason, r.Findings)
		}
	}
}
