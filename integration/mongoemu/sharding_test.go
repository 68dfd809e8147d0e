package mongoemu_test

import (
	"reflect"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

func TestMongosHello(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{Sharded: true})
	if want := "mongodb://" + s.Address() + "/"; s.URI() != want {
		t.Errorf("its URI is %s, want %s", s.URI(), want)
	}
	hello := must[bson.Raw](t)(client.Database("admin").RunCommand(t.Context(), d("hello", 1)).Raw())
	if hello.Lookup("msg").StringValue() != "isdbgrid" || !hello.Lookup("isWritablePrimary").Boolean() {
		t.Errorf("hello is %v", hello)
	}
	for _, field := range []string{"setName", "hosts", "primary", "me", "lastWrite", "secondary"} {
		if _, err := hello.LookupErr(field); err == nil {
			t.Errorf("a mongos gives %s", field)
		}
	}
}

func TestMongosRefusesReplicaSetCommands(t *testing.T) {
	t.Parallel()
	_, client := start(t, mongoemu.Config{Sharded: true})
	err := client.Database("admin").RunCommand(t.Context(), d("replSetGetStatus", 1)).Err()
	wantCode(t, err, 125, "not supported through mongos")
	wantCode(t, client.Database("local").Collection("oplog.rs").FindOne(t.Context(), d()).Err(), 13644, "can't use 'local'")
	_, replicaSet := start(t, mongoemu.Config{})
	wantCode(t, replicaSet.Database("admin").RunCommand(t.Context(), d("shardCollection", "db.c", "key", d("a", 1))).Err(), 59, "no such command")
}

func TestUniqueIndexNeedsTheShardKeyAsPrefix(t *testing.T) {
	t.Parallel()
	_, client := start(t, mongoemu.Config{Sharded: true})
	events := client.Database("db").Collection("c")
	index := func(unique bool, keys ...any) error {
		_, err := events.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: d(keys...), Options: options.Index().SetUnique(unique)})
		return err
	}
	shard := func(keys ...any) error {
		return client.Database("admin").RunCommand(t.Context(), d("shardCollection", "db.c", "key", d(keys...))).Err()
	}
	if err := index(true, "aggregateId", 1, "eventId", 1); err != nil {
		t.Fatal(err)
	}
	wantCode(t, shard("tenant", 1), 72, "Uniqueness can't be maintained")
	if err := shard("aggregateId", 1); err != nil {
		t.Fatal(err)
	}
	wantCode(t, index(true, "tenant", 1), 67, "with shard key pattern")
	if err := events.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := shard("tenant", 1); err != nil {
		t.Fatal(err)
	}
	wantCode(t, index(true, "aggregateId", 1, "eventId", 1), 67, "with shard key pattern")
	if err := index(false, "aggregateId", 1, "eventId", 1); err != nil {
		t.Error(err)
	}
	if err := index(true, "tenant", 1, "aggregateId", 1); err != nil {
		t.Error(err)
	}
	// Each shard keeps _id unique only for its own documents, so an index that begins with
	// _id is allowed.
	if err := index(true, "_id", 1, "aggregateId", 1); err != nil {
		t.Error(err)
	}
}

// inConfig reads the documents of a collection of the cluster's configuration, without the
// fields that differ between runs.
func inConfig(t *testing.T, client *mongo.Client, collection string, filter bson.D) []bson.D {
	t.Helper()
	cursor, err := client.Database("config").Collection(collection).Find(t.Context(), filter)
	found := all(t, cursor, err)
	for i, document := range found {
		found[i] = slices.DeleteFunc(document, func(e bson.E) bool {
			_, generated := e.Value.(bson.ObjectID)
			return generated || e.Key == "timestamp" || e.Key == "uuid"
		})
	}
	return found
}

func TestShardedCollectionsAreInTheConfiguration(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{Sharded: true})
	raw := dialRaw(t, s)
	follow(t, raw, []step{
		{`{"create": "folded", "collation": {"locale": "en", "strength": 2}}`, `{"ok": 1.0}`},
		{`{"shardCollection": "db.folded", "key": {"_id": "hashed"}, "$db": "admin"}`, `{"code": 2, "errmsg": "Collection has default collation: { locale: \"en\", caseLevel: false, caseFirst: \"off\", strength: 2, numericOrdering: false, alternate: \"non-ignorable\", maxVariable: \"punct\", normalization: false, backwards: false, version: \"57.1\" }. Must specify collation {locale: 'simple'}"}`},
		{`{"shardCollection": "db.folded", "key": {"_id": "hashed"}, "collation": {"locale": "en"}, "$db": "admin"}`, `{"ok": 0.0, "code": 2}`},
		{`{"shardCollection": "db.folded", "key": {"_id": 1}, "collation": {"locale": "simple"}, "$db": "admin"}`, `{"ok": 0.0, "code": 2}`},
		{`{"shardCollection": "db.folded", "key": {"_id": "hashed"}, "collation": {"locale": "simple"}, "numInitialChunks": 4, "$db": "admin"}`, `{"ok": 1.0, "collectionsharded": "db.folded"}`},
		{`{"listIndexes": "folded"}`, `{"cursor": {"firstBatch": [{"name": "_id_"}, {"name": "_id_hashed", "key": {"_id": "hashed"}, "collation": "<none>"}]}}`},
		{`{"shardCollection": "db.plain", "key": {"_id": 1}, "unique": true, "$db": "admin"}`, `{"ok": 1.0}`},
		{`{"shardCollection": "db.plain", "key": {"_id": 1}, "unique": true, "$db": "admin"}`, `{"ok": 1.0}`},
		{`{"shardCollection": "db.plain", "key": {"_id": 1}, "$db": "admin"}`, `{"ok": 0.0, "code": 23}`},
		{`{"shardCollection": "db.plain", "key": {"_id": "hashed"}, "$db": "admin"}`, `{"ok": 0.0, "code": 23}`},
		{`{"shardCollection": "db.x", "key": {"_id": "hashed"}, "unique": true, "$db": "admin"}`, `{"ok": 0.0, "code": 72}`},
		{`{"shardCollection": "db.x", "key": {"a": -1}, "$db": "admin"}`, `{"ok": 0.0, "code": 2}`},
		{`{"shardCollection": "db.x", "key": {}, "$db": "admin"}`, `{"ok": 0.0, "code": 72}`},
		{`{"shardCollection": "db.x", "key": {"a": 1}, "numInitialChunks": 4, "$db": "admin"}`, `{"ok": 0.0, "code": 72}`},
		{`{"insert": "full", "documents": [{"_id": 1, "a": 1}]}`, `{"n": 1}`},
		{`{"shardCollection": "db.full", "key": {"a": 1}, "$db": "admin"}`, `{"ok": 0.0, "code": 72}`},
		{`{"createIndexes": "full", "indexes": [{"key": {"a": 1, "b": 1}, "name": "ab"}]}`, `{"ok": 1.0}`},
		{`{"shardCollection": "db.full", "key": {"a": 1}, "$db": "admin"}`, `{"ok": 1.0}`},
		{`{"collStats": "full"}`, `{"sharded": true}`},
		{`{"collStats": "x"}`, `{"sharded": false}`},
		{`{"insert": "collections", "documents": [{"_id": 1}], "$db": "config"}`, `{"ok": 0.0, "code": 238}`},
		{`{"find": "chunks", "$db": "config"}`, `{"ok": 0.0, "code": 238}`},
	})
	want := []bson.D{
		d("_id", "db.full", "key", d("a", int32(1)), "unique", false, "noBalance", false),
		d("_id", "db.plain", "key", d("_id", int32(1)), "unique", true, "noBalance", false),
	}
	if got := inConfig(t, client, "collections", d("_id", d("$ne", "db.folded"))); !reflect.DeepEqual(got, want) {
		t.Errorf("config.collections has %v, want %v", got, want)
	}
	entry := must[bson.Raw](t)(client.Database("config").Collection("collections").FindOne(t.Context(), d("_id", "db.folded")).Raw())
	if _, uuid, _ := entry.Lookup("uuid").BinaryOK(); entry.Lookup("defaultCollation", "locale").StringValue() != "en" || string(uuid) != uuidOf(t, client.Database("db"), "folded") {
		t.Errorf("config.collections has %v", entry)
	}
}

// A rename of a sharded collection keeps its shard key, zones and UUID. It is refused if
// the target has zones.
func TestRenameOfShardedCollections(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{Sharded: true})
	raw := dialRaw(t, s)
	follow(t, raw, []step{
		{`{"shardCollection": "db.new", "key": {"_id": "hashed"}, "$db": "admin"}`, `{"ok": 1.0}`},
		{`{"shardCollection": "db.old", "key": {"tenant": 1}, "$db": "admin"}`, `{"ok": 1.0}`},
		{`{"updateZoneKeyRange": "db.old", "min": {"tenant": "a"}, "max": {"tenant": "m"}, "zone": "eu", "$db": "admin"}`, `{"ok": 0.0, "code": 177}`},
		{`{"addShardToZone": "shard-1", "zone": "eu", "$db": "admin"}`, `{"ok": 0.0, "code": 70}`},
		{`{"addShardToZone": "shard-0", "zone": "eu", "$db": "admin"}`, `{"ok": 1.0}`},
		{`{"updateZoneKeyRange": "db.old", "min": {"tenant": "a"}, "max": {"tenant": "m"}, "zone": "eu", "$db": "admin"}`, `{"ok": 1.0}`},
		{`{"updateZoneKeyRange": "db.old", "min": {"tenant": "a"}, "max": {"tenant": "m"}, "zone": "eu", "$db": "admin"}`, `{"ok": 1.0}`},
		{`{"updateZoneKeyRange": "db.old", "min": {"tenant": "b"}, "max": {"tenant": "c"}, "zone": "eu", "$db": "admin"}`, `{"ok": 0.0, "code": 178}`},
		{`{"updateZoneKeyRange": "db.old", "min": {"x": 1}, "max": {"x": 2}, "zone": "eu", "$db": "admin"}`, `{"ok": 0.0, "code": 61}`},
		{`{"updateZoneKeyRange": "db.new", "min": {"_id": "a"}, "max": {"_id": "b"}, "zone": "eu", "$db": "admin"}`, `{"ok": 0.0, "code": 72}`},
		{`{"updateZoneKeyRange": "db.new", "min": {"_id": {"$minKey": 1}}, "max": {"_id": {"$numberLong": "0"}}, "zone": "eu", "$db": "admin"}`, `{"ok": 1.0}`},
		{`{"renameCollection": "db.none", "to": "db.old", "dropTarget": true, "$db": "admin"}`, `{"ok": 0.0, "code": 26}`},
		{`{"renameCollection": "db.new", "to": "db.old", "$db": "admin"}`, `{"ok": 0.0, "code": 48}`},
		{`{"renameCollection": "db.new", "to": "db.old", "dropTarget": true, "$db": "admin"}`, `{"ok": 0.0, "code": 125, "errmsg": "Can't rename to target collection db.old because it must not have associated tags"}`},
		{`{"updateZoneKeyRange": "db.old", "min": {"tenant": "a"}, "max": {"tenant": "m"}, "zone": null, "$db": "admin"}`, `{"ok": 1.0}`},
	})
	uuid := uuidOf(t, client.Database("db"), "new")
	follow(t, raw, []step{{`{"renameCollection": "db.new", "to": "db.old", "dropTarget": true, "$db": "admin"}`, `{"ok": 1.0}`}})
	if got := uuidOf(t, client.Database("db"), "old"); got != uuid {
		t.Errorf("the UUID is %x, want %x", got, uuid)
	}
	keys, zones := inConfig(t, client, "collections", d()), inConfig(t, client, "tags", d())
	if want := []bson.D{d("_id", "db.old", "key", d("_id", "hashed"), "unique", false, "noBalance", false)}; !reflect.DeepEqual(keys, want) {
		t.Errorf("config.collections has %v, want %v", keys, want)
	}
	if want := []bson.D{d("ns", "db.old", "min", d("_id", bson.MinKey{}), "max", d("_id", int64(0)), "tag", "eu")}; !reflect.DeepEqual(zones, want) {
		t.Errorf("config.tags has %v, want %v", zones, want)
	}
	follow(t, raw, []step{{`{"drop": "old"}`, `{"ok": 1.0}`}})
	if keys, zones := inConfig(t, client, "collections", d()), inConfig(t, client, "tags", d()); len(keys)+len(zones) > 0 {
		t.Errorf("after the drop, the configuration has %v and %v", keys, zones)
	}
	// A collection with zones must be sharded by a key that fits them.
	follow(t, raw, []step{
		{`{"updateZoneKeyRange": "db.later", "min": {"_id": 1}, "max": {"_id": 5}, "zone": "eu", "$db": "admin"}`, `{"ok": 1.0}`},
		{`{"shardCollection": "db.later", "key": {"_id": "hashed"}, "$db": "admin"}`, `{"ok": 0.0, "code": 72}`},
		{`{"shardCollection": "db.later", "key": {"a": 1}, "$db": "admin"}`, `{"ok": 0.0, "code": 72}`},
		{`{"shardCollection": "db.later", "key": {"_id": 1}, "$db": "admin"}`, `{"ok": 1.0}`},
	})
}

// A hashed index is not used by queries, and refuses values that a hash cannot keep.
func TestHashedIndexes(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{DataDir: t.TempDir()})
	follow(t, dialRaw(t, s), []step{
		{`{"createIndexes": "c", "indexes": [{"key": {"a": "hashed"}, "name": "h", "unique": true}]}`, `{"ok": 0.0, "code": 16764}`},
		{`{"createIndexes": "c", "indexes": [{"key": {"a": "hashed", "b": "hashed"}, "name": "h"}]}`, `{"ok": 0.0, "code": 31303}`},
		{`{"createIndexes": "c", "indexes": [{"key": {"a": "hashed"}, "name": "h"}, {"key": {"b": 1, "a": "hashed"}, "name": "bh"}]}`, `{"ok": 1.0}`},
		{`{"insert": "c", "documents": [{"_id": 1, "a": "x"}, {"_id": 2, "a": "x"}, {"_id": 3}]}`, `{"n": 3, "writeErrors": "<none>"}`},
		{`{"insert": "c", "documents": [{"_id": 4, "a": ["x"]}]}`, `{"writeErrors": [{"code": 16766}]}`},
		{`{"find": "c", "filter": {"a": "x"}, "hint": "h"}`, `{"ok": 0.0, "code": 238}`},
		{`{"explain": {"find": "c", "filter": {"a": "x"}}}`, `{"queryPlanner": {"winningPlan": {"stage": "COLLSCAN"}}}`},
	})
	c := client.Database("db").Collection("c")
	equalIDs(t, all(t, must[*mongo.Cursor](t)(c.Find(t.Context(), d("a", "x"))), nil), 1, 2)
}
