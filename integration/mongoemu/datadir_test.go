package mongoemu_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// A server that is restarted on its directory has all data, and change streams continue at
// their positions.
func TestDataDirSurvivesARestart(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := t.TempDir()
	s, client := start(t, mongoemu.Config{DataDir: dir})
	c := client.Database("db").Collection("c")
	createIndex(t, c, d("n", 1), options.Index().SetUnique(true))
	cs := watch(t, c, mongo.Pipeline{})
	insertOne(t, c, "_id", 1, "n", 1)
	next(t, cs)
	token := cs.ResumeToken()
	must[*mongo.UpdateResult](t)(c.UpdateOne(ctx, d("_id", 1), d("$set", d("a", "x"))))
	insertOne(t, c, "_id", 2, "n", 2)
	must[*mongo.DeleteResult](t)(c.DeleteOne(ctx, d("_id", 2)))
	in, session := begin(t, client)
	must[*mongo.InsertManyResult](t)(c.InsertMany(in, []any{d("_id", 3, "n", 3), d("_id", 4, "n", 4)}))
	if err := session.CommitTransaction(ctx); err != nil {
		t.Fatal(err)
	}
	lost := dialRaw(t, s).run("db", d("insert", "c", "documents", bson.A{d("_id", 9, "n", 9)},
		"lsid", lsid(9), "txnNumber", int64(1), "autocommit", false, "startTransaction", true))
	if get(lost, "n") != int32(1) {
		t.Fatal(lost)
	}
	if err := errors.Join(client.Disconnect(ctx), s.Close()); err != nil {
		t.Fatal(err)
	}

	_, client = start(t, mongoemu.Config{DataDir: dir})
	c = client.Database("db").Collection("c")
	docs := all(t, must[*mongo.Cursor](t)(c.Find(ctx, d(), options.Find().SetSort(d("_id", 1)))), nil)
	if got, want := relaxed(t, docs), `[{"_id":1,"n":1,"a":"x"} {"_id":3,"n":3} {"_id":4,"n":4}]`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	_, err := c.InsertOne(ctx, d("_id", 5, "n", 3))
	wantCode(t, err, 11000, "n_1")
	cs = watch(t, c, mongo.Pipeline{}, resumeAfter(token))
	insertOne(t, c, "_id", 6, "n", 6)
	for _, want := range []struct {
		operation string
		id        int32
	}{{"update", 1}, {"insert", 2}, {"delete", 2}, {"insert", 3}, {"insert", 4}, {"insert", 6}} {
		if e := next(t, cs); get(e, "operationType") != want.operation || get(e, "documentKey", "_id") != want.id {
			t.Errorf("%v, want %v", e, want)
		}
	}
	other, err := mongoemu.New(mongoemu.Config{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err == nil {
		t.Error("two servers may use one directory")
	}
}
