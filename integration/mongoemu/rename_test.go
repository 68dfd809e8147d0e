package mongoemu_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// A rename over a collection keeps documents, indexes, options and UUID, and removes the
// replaced collection completely.
func TestRenameReplacesTarget(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, client := start(t, mongoemu.Config{})
	db := client.Database("db")
	if err := db.RunCommand(ctx, d("create", "new", "validator", d("v", "new"))).Err(); err != nil {
		t.Fatal(err)
	}
	createIndex(t, db.Collection("new"), d("n", 1), options.Index().SetUnique(true))
	insertOne(t, db.Collection("new"), "_id", 1, "v", "new", "n", 1)
	insertOne(t, db.Collection("old"), "_id", 2, "v", "old")
	createIndex(t, db.Collection("old"), d("gone", 1), options.Index())
	uuid := uuidOf(t, db, "new")
	source, target, whole := watch(t, db.Collection("new"), mongo.Pipeline{}), watch(t, db.Collection("old"), mongo.Pipeline{}), watch(t, db, mongo.Pipeline{})
	open := must[*mongo.Cursor](t)(db.Collection("old").Find(ctx, d(), options.Find().SetBatchSize(0)))

	follow(t, dialRaw(t, s), []step{
		{`{"renameCollection": "db.new", "to": "db.old"}`, `{"ok": 0.0, "code": 13}`},
		{`{"renameCollection": "db.new", "to": "db.old", "$db": "admin"}`, `{"ok": 0.0, "code": 48, "codeName": "NamespaceExists", "errmsg": "target namespace exists"}`},
		{`{"renameCollection": "db.none", "to": "db.old", "dropTarget": true, "$db": "admin"}`, `{"ok": 0.0, "code": 26}`},
		{`{"renameCollection": "db.new", "to": "db.new", "dropTarget": true, "$db": "admin"}`, `{"ok": 0.0, "code": 20}`},
		{`{"renameCollection": "db.new", "to": "db.a$b", "$db": "admin"}`, `{"ok": 0.0, "code": 73}`},
		{`{"renameCollection": "db.new", "to": "other.old", "$db": "admin"}`, `{"ok": 0.0, "code": 238}`},
		{`{"renameCollection": "db.new", "to": "db.old", "dropTarget": true, "$db": "admin"}`, `{"ok": 1.0}`},
		{`{"listIndexes": "old"}`, `{"cursor": {"firstBatch": [{"name": "_id_"}, {"name": "n_1", "unique": true}]}}`},
		{`{"listIndexes": "new"}`, `{"ok": 0.0, "code": 26}`},
		{`{"find": "old"}`, `{"cursor": {"firstBatch": [{"_id": 1, "v": "new"}]}}`},
		{`{"insert": "old", "documents": [{"_id": 3, "v": "old"}]}`, `{"writeErrors": [{"code": 121}]}`},
		{`{"insert": "old", "documents": [{"_id": 4, "v": "new", "n": 1}]}`, `{"writeErrors": [{"code": 11000}]}`},
		{`{"insert": "old", "documents": [{"_id": 5, "v": "new", "n": 5}]}`, `{"n": 1}`},
	})
	if got := uuidOf(t, db, "old"); got != uuid {
		t.Errorf("the UUID is %x, want %x", got, uuid)
	}
	if open.Next(ctx) {
		t.Errorf("a cursor of the replaced collection gives %v", open.Current)
	}
	wantCode(t, open.Err(), 175, "")
	for name, cs := range map[string]*mongo.ChangeStream{"source": source, "target": target} {
		e := next(t, cs)
		if get(e, "operationType") != "rename" || get(e, "ns", "coll") != "new" || get(e, "to", "coll") != "old" {
			t.Errorf("%s: %v", name, e)
		}
		if e := next(t, cs); get(e, "operationType") != "invalidate" {
			t.Errorf("%s: %v", name, e)
		}
	}
	for _, want := range []string{"rename", "insert"} {
		if e := next(t, whole); get(e, "operationType") != want {
			t.Errorf("%v, want %s", e, want)
		}
	}
}

// A rename waits for a transaction that has touched either collection. A transaction that
// saw the collections before the rename cannot write to them.
func TestRenameAndTransactions(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, client := start(t, mongoemu.Config{})
	db := client.Database("db")
	from, to := db.Collection("from"), db.Collection("to")
	insertOne(t, from, "_id", 1)
	insertOne(t, to, "_id", 2)
	in, session := begin(t, client)
	must[*mongo.InsertOneResult](t)(to.InsertOne(in, d("_id", 3)))
	late, latecomer := begin(t, client)
	if _, err := db.Collection("other").CountDocuments(late, d()); err != nil {
		t.Fatal(err)
	}
	rename := d("renameCollection", "db.from", "to", "db.to", "dropTarget", true)
	wantCode(t, client.Database("admin").RunCommand(ctx, append(rename, bson.E{Key: "maxTimeMS", Value: 50})).Err(), 50, "exceeded time limit")
	done := make(chan error, 1)
	go func() { done <- client.Database("admin").RunCommand(ctx, rename).Err() }()
	if err := session.CommitTransaction(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	_, err := to.InsertOne(late, d("_id", 4))
	wantCode(t, err, 112, "")
	_ = latecomer.AbortTransaction(ctx)
	equalIDs(t, all(t, must[*mongo.Cursor](t)(to.Find(ctx, d())), nil), 1)
}

// Options of collections and indexes survive a restart, including those set by collMod.
func TestOptionsSurviveARestart(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := t.TempDir()
	var first string
	for round := range 3 { // the second start rewrites the journal
		s, client := start(t, mongoemu.Config{DataDir: dir})
		raw := dialRaw(t, s)
		if round == 0 {
			follow(t, raw, []step{
				{`{"create": "c", "collation": {"locale": "en", "strength": 2}, "validator": {"a": 1}}`, `{"ok": 1.0}`},
				{`{"createIndexes": "c", "indexes": [{"key": {"b": 1}, "name": "b", "unique": true, "partialFilterExpression": {"n": 1}}, {"key": {"t": 1}, "name": "t", "collation": {"locale": "simple"}, "expireAfterSeconds": 5}]}`, `{"ok": 1.0}`},
				{`{"collMod": "c", "validator": {"n": {"$exists": true}}, "index": {"name": "b", "hidden": true}}`, `{"ok": 1.0}`},
				{`{"collMod": "c", "index": {"name": "t", "expireAfterSeconds": 50}}`, `{"ok": 1.0}`},
				{`{"insert": "c", "documents": [{"_id": 1, "b": "x", "n": 1}, {"_id": 2, "b": "x", "n": 2}]}`, `{"n": 2}`},
			})
		}
		follow(t, raw, []step{
			{`{"insert": "c", "documents": [{"_id": 3, "b": "X", "n": 1}]}`, `{"writeErrors": [{"code": 11000}]}`},
			{`{"insert": "c", "documents": [{"_id": 3}]}`, `{"writeErrors": [{"code": 121}]}`},
		})
		got := relaxed(t, []bson.D{{{Key: "indexes", Value: get(raw.run("db", d("listIndexes", "c")), "cursor", "firstBatch")},
			{Key: "options", Value: get(raw.run("db", d("listCollections", 1)), "cursor", "firstBatch")}}})
		if round == 0 {
			first = got
		}
		if got != first {
			t.Errorf("after restart %d:\ngot  %s\nwant %s", round, got, first)
		}
		if err := client.Disconnect(ctx); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
