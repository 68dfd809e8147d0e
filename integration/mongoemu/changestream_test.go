package mongoemu_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var inserts = mongo.Pipeline{d("$match", d("operationType", "insert"))}

// watcher is a collection, a database or a client, on which a change stream can be opened.
type watcher interface {
	Watch(ctx context.Context, pipeline any, o ...options.Lister[options.ChangeStreamOptions]) (*mongo.ChangeStream, error)
}

func watch(t *testing.T, c watcher, pipeline any, o ...options.Lister[options.ChangeStreamOptions]) *mongo.ChangeStream {
	t.Helper()
	cs, err := c.Watch(t.Context(), pipeline, o...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cs.Close(context.Background()) })
	return cs
}

// next returns the next event.
func next(t *testing.T, cs *mongo.ChangeStream) bson.D {
	t.Helper()
	if !cs.Next(t.Context()) {
		t.Fatalf("no event: %v", cs.Err())
	}
	var event bson.D
	if err := bson.Unmarshal(cs.Current, &event); err != nil {
		t.Fatal(err)
	}
	return event
}

func insertOne(t *testing.T, c *mongo.Collection, pairs ...any) {
	t.Helper()
	must[*mongo.InsertOneResult](t)(c.InsertOne(t.Context(), d(pairs...)))
}

func TestChangeEvents(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := collection(t)
	cs := watch(t, c, mongo.Pipeline{})
	insertOne(t, c, "_id", 1, "a", 1)
	must[*mongo.UpdateResult](t)(c.UpdateOne(ctx, d("_id", 1), d("$set", d("a", 2), "$unset", d("b", ""))))
	must[*mongo.UpdateResult](t)(c.UpdateOne(ctx, d("_id", 1), d("$set", d("a", 2)))) // changes nothing
	must[*mongo.UpdateResult](t)(c.ReplaceOne(ctx, d("_id", 1), d("z", 1)))
	must[*mongo.DeleteResult](t)(c.DeleteOne(ctx, d("_id", 1)))
	var last bson.Timestamp
	for _, want := range []struct{ operation, fields string }{
		{"insert", `{"_id":1,"a":1}`}, {"update", ``}, {"replace", `{"_id":1,"z":1}`}, {"delete", ``},
	} {
		e := next(t, cs)
		if get(e, "operationType") != want.operation || get(e, "ns", "db") != "db" || get(e, "ns", "coll") != "c" || get(e, "documentKey", "_id") != int32(1) {
			t.Errorf("%v", e)
		}
		if full, _ := get(e, "fullDocument").(bson.D); want.fields != "" && relaxed(t, []bson.D{full}) != "["+want.fields+"]" || want.fields == "" && full != nil {
			t.Errorf("%v", e)
		}
		ts, wall := get(e, "clusterTime").(bson.Timestamp), get(e, "wallTime").(bson.DateTime)
		if !ts.After(last) || time.Since(wall.Time()) > time.Minute {
			t.Errorf("clusterTime %v after %v, wallTime %v", ts, last, wall.Time())
		}
		last = ts
		if want.operation == "update" {
			if got := fmt.Sprint(get(e, "updateDescription")); got != `{"updatedFields":{"a":{"$numberInt":"2"}},"removedFields":[]}` {
				t.Error(got)
			}
		}
	}
}

func TestPipelines(t *testing.T) {
	t.Parallel()
	c := collection(t)
	other := c.Database().Collection("other")
	filtered := watch(t, c.Database(), mongo.Pipeline{
		d("$match", d("operationType", d("$in", bson.A{"insert", "update"}), "ns.coll", "c", "fullDocument.n", d("$gte", 2))),
		d("$project", d("_id", 1, "fullDocument.n", 1, "kind", "$operationType")),
	})
	whole := watch(t, c.Database().Client(), mongo.Pipeline{})
	insertOne(t, other, "_id", 1, "n", 5)
	insertOne(t, c, "_id", 1, "n", 1)
	insertOne(t, c, "_id", 2, "n", 2)
	e := next(t, filtered)
	if len(e) != 3 || get(e, "fullDocument", "n") != int32(2) || get(e, "kind") != "insert" {
		t.Errorf("%v", e)
	}
	for _, want := range []string{"other", "c", "c"} {
		if e := next(t, whole); get(e, "ns", "coll") != want {
			t.Errorf("%v, want one of %s", e, want)
		}
	}
	_, err := c.Watch(t.Context(), mongo.Pipeline{d("$group", d("_id", 1))})
	wantCode(t, err, 20, "$group is not permitted in a $changeStream pipeline")
	_, err = c.Watch(t.Context(), mongo.Pipeline{}, options.ChangeStream().SetFullDocument(options.Required))
	wantCode(t, err, 238, "required")
	_, err = c.Watch(t.Context(), mongo.Pipeline{}, options.ChangeStream().SetShowExpandedEvents(true))
	wantCode(t, err, 238, "showExpandedEvents")
}

// A projection without _id fails at the first event, and the driver cannot continue from
// there.
func TestProjectionWithoutTheTokenEndsTheStream(t *testing.T) {
	t.Parallel()
	c := collection(t)
	cs := watch(t, c, mongo.Pipeline{d("$project", d("_id", 0))})
	insertOne(t, c, "_id", 1)
	if cs.Next(t.Context()) {
		t.Fatalf("%v", cs.Current)
	}
	wantCode(t, cs.Err(), 280, "Only transformations that retain the unmodified _id field are allowed")
}

func TestInvalidation(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, end := range map[string]func(*mongo.Collection) error{
		"drop": func(c *mongo.Collection) error { return c.Drop(ctx) },
		"rename": func(c *mongo.Collection) error {
			return c.Database().Client().Database("admin").RunCommand(ctx, d("renameCollection", "db.c", "to", "db.d")).Err()
		},
	} {
		c := collection(t)
		insertOne(t, c, "_id", 1)
		cs := watch(t, c, mongo.Pipeline{})
		db := watch(t, c.Database(), mongo.Pipeline{})
		filtered := watch(t, c, inserts)
		if err := end(c); err != nil {
			t.Fatal(err)
		}
		if e := next(t, cs); get(e, "operationType") != name {
			t.Errorf("%v", e)
		}
		if e := next(t, cs); get(e, "operationType") != "invalidate" {
			t.Errorf("%v", e)
		}
		token := cs.ResumeToken()
		if cs.Next(ctx) || cs.Err() != nil || cs.ID() != 0 {
			t.Errorf("%s: the stream continues: %v, id %d", name, cs.Err(), cs.ID())
		}
		// A filter that hides the invalidation does not keep the stream open.
		if filtered.Next(ctx) || filtered.Err() != nil {
			t.Errorf("%s: %v, %v", name, filtered.Current, filtered.Err())
		}
		_, err := c.Watch(ctx, mongo.Pipeline{}, options.ChangeStream().SetResumeAfter(token))
		wantCode(t, err, 260, "is not allowed from an invalidate notification")
		again := watch(t, c, mongo.Pipeline{}, options.ChangeStream().SetStartAfter(token))
		insertOne(t, c, "_id", 2)
		if e := next(t, again); get(e, "operationType") != "insert" || get(e, "documentKey", "_id") != int32(2) {
			t.Errorf("%s: %v", name, e)
		}
		// The stream of the whole database sees the event and continues.
		if e := next(t, db); get(e, "operationType") != name {
			t.Errorf("%v", e)
		}
		if e := next(t, db); get(e, "operationType") != "insert" {
			t.Errorf("%v", e)
		}
	}
}

// A stream that resumes at a token of a collection that has lost its name carries what was
// inserted before that, then the end, and after it the changes of the collections that have
// had the name since. The server matches the oplog by the name, and gives the stream neither
// the collation nor the UUID of the present collection (run_aggregate.cpp: "the stream may be
// resuming from a point before the current UUID existed"). The ends of both collections are
// its metadata_notifications.js.
func TestResumeBeforeTheEndOfACollection(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := collection(t)
	rename := func(from, to string) {
		t.Helper()
		if err := c.Database().Client().Database("admin").RunCommand(ctx, d("renameCollection", "db."+from, "to", "db."+to)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	cs := watch(t, c, mongo.Pipeline{})
	insertOne(t, c, "_id", 1)
	next(t, cs)
	token := cs.ResumeToken()
	insertOne(t, c, "_id", 2)
	rename("c", "archive")
	insertOne(t, c.Database().Collection("successor"), "_id", 3)
	rename("successor", "c")
	insertOne(t, c, "_id", 4)
	if err := c.Drop(ctx); err != nil {
		t.Fatal(err)
	}
	insertOne(t, c, "_id", 5)

	for _, want := range []struct {
		operation string
		id        any
	}{
		{"insert", int32(2)}, {"rename", nil}, {"invalidate", nil},
		{"rename", nil}, {"invalidate", nil},
		{"insert", int32(4)}, {"drop", nil}, {"invalidate", nil},
		{"insert", int32(5)},
	} {
		again := watch(t, c, mongo.Pipeline{}, options.ChangeStream().SetStartAfter(token))
		if e := next(t, again); get(e, "operationType") != want.operation || get(e, "documentKey", "_id") != want.id {
			t.Errorf("%v, want %v", e, want)
		}
		token = again.ResumeToken()
	}
}

func TestDropDatabaseInvalidates(t *testing.T) {
	t.Parallel()
	c := collection(t)
	insertOne(t, c, "_id", 1)
	cs := watch(t, c.Database(), mongo.Pipeline{})
	if err := c.Database().Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"drop", "dropDatabase", "invalidate"} {
		if e := next(t, cs); get(e, "operationType") != want {
			t.Errorf("%v, want %s", e, want)
		}
	}
}
