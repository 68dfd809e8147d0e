package catalog_test

import (
	"reflect"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
)

// order runs a command on the database admin.
func order(t *testing.T, db *mongo.Database, command bson.D) {
	t.Helper()
	if err := db.Client().Database("admin").RunCommand(t.Context(), command).Err(); err != nil {
		t.Fatal(err)
	}
}

// shard shards a collection of a database.
func shard(t *testing.T, db *mongo.Database, collection string, key bson.D, more ...bson.E) {
	t.Helper()
	order(t, db, append(bson.D{{Key: "shardCollection", Value: db.Name() + "." + collection}, {Key: "key", Value: key}}, more...))
}

// entry is the cluster's entry of a sharded collection.
type entry struct {
	Key              bson.D `bson:"key"`
	Unique           bool   `bson:"unique"`
	DefaultCollation bson.D `bson:"defaultCollation"`
}

// sharded returns the sharding of a collection; empty if it is not sharded.
func sharded(t *testing.T, db *mongo.Database, collection string) entry {
	t.Helper()
	var found []entry
	cursor, err := db.Client().Database("config").Collection("collections").Find(t.Context(), bson.D{{Key: "_id", Value: db.Name() + "." + collection}})
	if err == nil {
		err = cursor.All(t.Context(), &found)
	}
	if err != nil {
		t.Fatal(err)
	}
	return append(found, entry{})[0]
}

// zones reads the zones of a collection.
func zones(t *testing.T, db *mongo.Database, collection string) []bson.D {
	t.Helper()
	var found []bson.D
	cursor, err := db.Client().Database("config").Collection("tags").Find(t.Context(), bson.D{{Key: "ns", Value: db.Name() + "." + collection}}, options.Find().SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: "ns", Value: 0}}))
	if err == nil {
		err = cursor.All(t.Context(), &found)
	}
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// zoned adds a range of keys of the collection users to a zone, or removes it if zone is
// nil.
func zoned(t *testing.T, db *mongo.Database, low, high any, zone any) {
	t.Helper()
	order(t, db, bson.D{{Key: "addShardToZone", Value: "shard-0"}, {Key: "zone", Value: "eu"}})
	order(t, db, bson.D{
		{Key: "updateZoneKeyRange", Value: db.Name() + ".users"}, {Key: "zone", Value: zone},
		{Key: "min", Value: bson.D{{Key: "_id", Value: low}}}, {Key: "max", Value: bson.D{{Key: "_id", Value: high}}},
	})
}

func TestShadowOfAShardedCollectionIsSharded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		indexes []mongo.IndexModel
		key     bson.D
		more    []bson.E
	}{
		"by _id":           {key: bson.D{{Key: "_id", Value: int32(1)}}},
		"by _id, unique":   {key: bson.D{{Key: "_id", Value: int32(1)}}, more: []bson.E{{Key: "unique", Value: true}}},
		"by a hash of _id": {key: bson.D{{Key: "_id", Value: "hashed"}}},
		"with a unique index": {
			indexes: []mongo.IndexModel{{Keys: bson.D{{Key: "_id", Value: 1}, {Key: "email", Value: 1}}, Options: options.Index().SetUnique(true).SetName("contact")}},
			key:     bson.D{{Key: "_id", Value: "hashed"}},
		},
		"by several fields": {key: bson.D{{Key: "_id", Value: int32(1)}, {Key: "tenant", Value: "hashed"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongos.Database(t)
			if err := db.CreateCollection(t.Context(), "users"); err != nil {
				t.Fatal(err)
			}
			if _, err := db.Collection("users").Indexes().CreateMany(t.Context(), append(test.indexes, mongo.IndexModel{Keys: bson.D{{Key: "name", Value: 1}}})); err != nil {
				t.Fatal(err)
			}
			shard(t, db, "users", test.key, test.more...)
			want := sharded(t, db, "users")
			s := catalog.NewShadows(db)
			uuid, err := s.Prepare(t.Context(), "users.generation-2", "users")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Prepare(t.Context(), "users.generation-2", "users"); err != nil {
				t.Fatalf("repeated: %v", err)
			}
			if got := sharded(t, db, "users.generation-2"); len(want.Key) == 0 || !reflect.DeepEqual(got, want) {
				t.Errorf("the shadow is sharded as %v, want %v", got, want)
			}
			if got, want := indexes(t, db, "users.generation-2"), indexes(t, db, "users"); !reflect.DeepEqual(got, want) {
				t.Errorf("the shadow has the indexes %v, want %v", got, want)
			}
			for _, step := range [][2]string{{"users.generation-2", "users.generation-2.promotion-1"}, {"users.generation-2.promotion-1", "users"}} {
				if err := s.Rename(t.Context(), step[0], step[1], step[1] == "users"); err != nil {
					t.Fatal(err)
				}
			}
			if at, err := s.Where(t.Context(), uuid); err != nil || at != "users" {
				t.Errorf("the collection is at %q: %v", at, err)
			}
			if got := sharded(t, db, "users"); !reflect.DeepEqual(got, want) {
				t.Errorf("the new collection is sharded as %v, want %v", got, want)
			}
		})
	}
}

// indexes lists the indexes of a collection without its name.
func indexes(t *testing.T, db *mongo.Database, collection string) []bson.M {
	t.Helper()
	var found []bson.M
	cursor, err := db.Collection(collection).Indexes().List(t.Context())
	if err == nil {
		err = cursor.All(t.Context(), &found)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, index := range found {
		delete(index, "ns")
	}
	return found
}

// The server refuses renames over a collection with zones.
func TestZonesAreCopiedAndSurviveThePromotion(t *testing.T) {
	t.Parallel()
	db := mongos.Database(t)
	shard(t, db, "users", bson.D{{Key: "_id", Value: 1}})
	zoned(t, db, "a", "m", "eu")
	zoned(t, db, "m", bson.MaxKey{}, "eu")
	want := zones(t, db, "users")
	s := catalog.NewShadows(db)
	const made = "users.generation-2"
	if _, err := s.Prepare(t.Context(), made, "users"); err != nil {
		t.Fatal(err)
	}
	if got := zones(t, db, made); len(want) != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("the shadow has the zones %v, want %v", got, want)
	}
	// The zones change before the preparation is repeated.
	zoned(t, db, "a", "m", nil)
	zoned(t, db, "a", "k", "eu")
	want = zones(t, db, "users")
	if _, err := s.Prepare(t.Context(), made, "users"); err != nil {
		t.Fatal(err)
	}
	if got := zones(t, db, made); !reflect.DeepEqual(got, want) {
		t.Errorf("the shadow has the zones %v, want %v", got, want)
	}
	for range 2 {
		if err := s.Rename(t.Context(), made, "users", true); err != nil {
			t.Fatal(err)
		}
		if got := zones(t, db, "users"); !reflect.DeepEqual(got, want) {
			t.Errorf("the new collection has the zones %v, want %v", got, want)
		}
	}
	if got := zones(t, db, made); len(got) > 0 {
		t.Errorf("zones of the shadow are left: %v", got)
	}
}

// A user with the role readWrite cannot read the cluster's configuration. That is an
// error only if the collection is sharded. The test makes the stand-in refuse every find,
// so it is not parallel.
func TestUnreadableShardKeyIsAnErrorOnlyIfSharded(t *testing.T) {
	db := mongos.Database(t)
	if err := db.CreateCollection(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	shard(t, db, "users", bson.D{{Key: "_id", Value: 1}})
	order(t, db, bson.D{{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: "alwaysOn"}, {Key: "data", Value: bson.D{
		{Key: "failCommands", Value: bson.A{"find"}}, {Key: "errorCode", Value: 13},
	}}})
	defer order(t, db, bson.D{{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: "off"}})
	s := catalog.NewShadows(db)
	if _, err := s.Prepare(t.Context(), "orders.generation-2", "orders"); err != nil {
		t.Errorf("a collection that is not sharded: %v", err)
	}
	if _, err := s.Prepare(t.Context(), "users.generation-2", "users"); err == nil || !strings.Contains(err.Error(), "give the user the role clusterMonitor") {
		t.Errorf("a sharded collection: %v", err)
	}
}

// A coordinator is suspended between the refused rename and the removal of the zones.
// Meanwhile its successor renames the collection, so the coordinator removes the zones of
// the new collection and must restore them.
func TestLateCoordinatorRestoresTheZones(t *testing.T) {
	t.Parallel()
	failed := func(code int) bson.D { return bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: code}} }
	ok := bson.D{{Key: "ok", Value: 1}}
	tags := func(found ...any) bson.D {
		return bson.D{{Key: "ok", Value: 1}, {Key: "cursor", Value: bson.D{{Key: "id", Value: int64(0)}, {Key: "ns", Value: "config.tags"}, {Key: "firstBatch", Value: append(bson.A{}, found...)}}}}
	}
	tag := bson.D{{Key: "min", Value: bson.D{{Key: "_id", Value: "a"}}}, {Key: "max", Value: bson.D{{Key: "_id", Value: "m"}}}, {Key: "tag", Value: "eu"}}
	server := mongotest.NewReplies(t, failed(125), append(bson.D{{Key: "msg", Value: "isdbgrid"}}, ok...), tags(tag), tags(tag), ok, failed(26), tags(), ok)
	if err := catalog.NewShadows(server.Client.Database("shop")).Rename(t.Context(), "users.generation-2.promotion-1", "users", true); err != nil {
		t.Fatal(err)
	}
	if n := server.Commands(); n != 8 {
		t.Fatalf("%d commands, want 8", n)
	}
	for i, want := range map[int]string{4: `"zone":null`, 7: `"zone":"eu"`} {
		if command := server.Command(t, i); !strings.Contains(command, "updateZoneKeyRange") || !strings.Contains(command, want) {
			t.Errorf("command %d is %s, want %s", i, command, want)
		}
	}
}
