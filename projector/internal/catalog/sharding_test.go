package catalog_test

import (
	"reflect"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

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

// MongoDB renames no collection over one with zones, so a build waits until they are removed.
func TestZonesDelayTheBuild(t *testing.T) {
	t.Parallel()
	db := mongos.Database(t)
	shard(t, db, "users", bson.D{{Key: "_id", Value: 1}})
	order(t, db, bson.D{{Key: "addShardToZone", Value: "shard-0"}, {Key: "zone", Value: "eu"}})
	s := catalog.NewShadows(db)
	for _, zone := range []any{"eu", nil} {
		order(t, db, bson.D{
			{Key: "updateZoneKeyRange", Value: db.Name() + ".users"}, {Key: "zone", Value: zone},
			{Key: "min", Value: bson.D{{Key: "_id", Value: bson.MinKey{}}}}, {Key: "max", Value: bson.D{{Key: "_id", Value: "a"}}},
		})
		_, err := s.Prepare(t.Context(), "users.generation-2", "users")
		if zone == nil && err != nil || zone != nil && (err == nil || !strings.Contains(err.Error(), "users has zones")) {
			t.Errorf("with the zone %v: %v", zone, err)
		}
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
