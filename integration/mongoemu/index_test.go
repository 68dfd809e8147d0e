package mongoemu_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

func createIndex(t *testing.T, c *mongo.Collection, keys bson.D, o *options.IndexOptionsBuilder) {
	t.Helper()
	must[string](t)(c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: keys, Options: o}))
}

// plan returns the stages and the index of a find.
func plan(t *testing.T, c *mongo.Collection, filter, sort bson.D) string {
	t.Helper()
	var reply bson.D
	err := c.Database().RunCommand(t.Context(), d("explain", d("find", c.Name(), "filter", filter, "sort", sort))).Decode(&reply)
	if err != nil {
		t.Fatal(err)
	}
	out := ""
	for stage, _ := get(reply, "queryPlanner", "winningPlan").(bson.D); stage != nil; stage, _ = get(stage, "inputStage").(bson.D) {
		out += fmt.Sprint(get(stage, "stage"), " ")
		if name := get(stage, "indexName"); name != nil {
			out += fmt.Sprint(name, " ")
			if get(stage, "bounded") != true {
				out += "whole "
			}
		}
	}
	return out
}

func TestPlansDoNotScan(t *testing.T) {
	t.Parallel()
	c := collection(t)
	createIndex(t, c, d("aggregateId", 1, "eventId", 1), options.Index().SetUnique(true))
	createIndex(t, c, d("at", -1), options.Index())
	tests := []struct {
		filter, sort bson.D
		want         string
	}{
		{d("_id", 1), d(), "FETCH IXSCAN _id_ "},
		{d("_id", d("$in", bson.A{1, 2})), d(), "FETCH IXSCAN _id_ "},
		{d("_id", d("$gt", 1)), d("_id", 1), "FETCH IXSCAN _id_ "},
		{d(), d("_id", -1), "FETCH IXSCAN _id_ whole "},
		{d("aggregateId", "a"), d(), "FETCH IXSCAN aggregateId_1_eventId_1 "},
		{d("aggregateId", "a", "eventId", d("$gt", 5)), d("eventId", 1), "FETCH IXSCAN aggregateId_1_eventId_1 "},
		{d("aggregateId", "a", "eventId", d("$gt", 5)), d("eventId", -1), "FETCH IXSCAN aggregateId_1_eventId_1 "},
		{d("aggregateId", d("$gt", "a")), d("aggregateId", 1, "eventId", 1), "FETCH IXSCAN aggregateId_1_eventId_1 "},
		{d(), d("aggregateId", 1, "eventId", 1), "FETCH IXSCAN aggregateId_1_eventId_1 whole "},
		{d(), d("aggregateId", -1, "eventId", -1), "FETCH IXSCAN aggregateId_1_eventId_1 whole "},
		{d(), d("aggregateId", 1, "eventId", -1), "SORT COLLSCAN "},
		// The page after (a, 5): a disjunction of two ranges of one index.
		{d("$or", bson.A{d("aggregateId", "a", "eventId", d("$gt", 5)), d("aggregateId", d("$gt", "a"))}), d("aggregateId", 1, "eventId", 1), "FETCH IXSCAN aggregateId_1_eventId_1 "},
		{d("at", d("$lte", time.Now())), d("at", 1), "FETCH IXSCAN at_-1 "},
		{d("other", 1), d(), "COLLSCAN "},
		{d("aggregateId", d("$ne", "a")), d(), "COLLSCAN "},
	}
	for _, tt := range tests {
		if got := plan(t, c, tt.filter, tt.sort); got != tt.want {
			t.Errorf("%v sorted %v: %q, want %q", tt.filter, tt.sort, got, tt.want)
		}
	}
}

// A page begins where the previous one ended, by the bound of a hinted index.
func TestMinAndMax(t *testing.T) {
	t.Parallel()
	c := collection(t)
	createIndex(t, c, d("a", 1, "n", 1), options.Index())
	for i := range 12 {
		must[*mongo.InsertOneResult](t)(c.InsertOne(t.Context(), d("_id", i, "a", fmt.Sprint("x", i/4), "n", i%4)))
	}
	o := options.Find().SetSort(d("a", 1, "n", 1)).SetHint("a_1_n_1").SetBatchSize(2)
	docs := all(t, must[*mongo.Cursor](t)(c.Find(t.Context(), d(), o.SetMin(d("a", "x1", "n", 2)).SetMax(d("a", "x2", "n", 1)))), nil)
	equalIDs(t, docs, 6, 7, 8)
	_, err := c.Find(t.Context(), d(), options.Find().SetMin(d("a", 1)))
	wantCode(t, err, 51173, "a hint of which index to use must be provided")
	_, err = c.Find(t.Context(), d(), options.Find().SetHint("a_1_n_1").SetMin(d("n", 1)))
	wantCode(t, err, 51174, "not compatible with min/max")
	_, err = c.Find(t.Context(), d(), options.Find().SetHint("nope"))
	wantCode(t, err, 2, "hint provided does not correspond to an existing index")
}

func TestUniqueIndexes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := collection(t)
	must[*mongo.InsertManyResult](t)(c.InsertMany(ctx, []any{d("_id", 1, "a", "x", "n", 1), d("_id", 2, "a", "x", "n", 2), d("_id", 3)}))
	_, err := c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: d("a", 1), Options: options.Index().SetUnique(true)})
	wantCode(t, err, 11000, `index: a_1 dup key: { a: "x" }`)
	createIndex(t, c, d("a", 1, "n", 1), options.Index().SetUnique(true))
	_, err = c.InsertOne(ctx, d("_id", 4, "a", "x", "n", 2))
	wantCode(t, err, 11000, `E11000 duplicate key error collection: db.c index: a_1_n_1 dup key: { a: "x", n: 2 }`)
	_, err = c.InsertOne(ctx, d("_id", 4))
	wantCode(t, err, 11000, `dup key: { a: null, n: null }`)
	_, err = c.UpdateOne(ctx, d("_id", 1), d("$inc", d("n", 1)))
	wantCode(t, err, 11000, `a_1_n_1`)
	must[*mongo.UpdateResult](t)(c.UpdateOne(ctx, d("_id", 1), d("$inc", d("n", 5))))
	must[*mongo.InsertOneResult](t)(c.InsertOne(ctx, d("_id", 5, "a", "x", "n", 1)))
	// An array has an entry for each of its elements.
	_, err = c.InsertOne(ctx, d("_id", 6, "a", bson.A{"y", "x"}, "n", 1))
	wantCode(t, err, 11000, `{ a: "x", n: 1 }`)
	_, err = c.InsertOne(ctx, d("_id", 7, "a", bson.A{1}, "n", bson.A{1}))
	wantCode(t, err, 171, "cannot index parallel arrays")
	specs := must[[]mongo.IndexSpecification](t)(c.Indexes().ListSpecifications(ctx))
	if len(specs) != 2 || specs[1].Name != "a_1_n_1" || !*specs[1].Unique {
		t.Errorf("%+v", specs)
	}
	if err := c.Indexes().DropOne(ctx, "a_1_n_1"); err != nil {
		t.Error(err)
	}
	must[*mongo.InsertOneResult](t)(c.InsertOne(ctx, d("_id", 8, "a", "x", "n", 1)))
	wantCode(t, c.Indexes().DropOne(ctx, "nope"), 27, "index not found with name [nope]")
}

func TestSparseIndexes(t *testing.T) {
	t.Parallel()
	c := collection(t)
	createIndex(t, c, d("a", 1), options.Index().SetUnique(true).SetSparse(true))
	must[*mongo.InsertManyResult](t)(c.InsertMany(t.Context(), []any{d("_id", 1), d("_id", 2), d("_id", 3, "a", nil), d("_id", 4, "a", 1)}))
	_, err := c.InsertOne(t.Context(), d("_id", 5, "a", nil))
	wantCode(t, err, 11000, "a: null")
	equalIDs(t, all(t, must[*mongo.Cursor](t)(c.Find(t.Context(), d("a", nil))), nil), 1, 2, 3)
	equalIDs(t, all(t, must[*mongo.Cursor](t)(c.Find(t.Context(), d("a", 1))), nil), 4)
	equalIDs(t, all(t, must[*mongo.Cursor](t)(c.Find(t.Context(), d(), options.Find().SetSort(d("a", 1, "_id", 1)))), nil), 1, 2, 3, 4)
}

func TestIndexesRefusesUnsupportedOptions(t *testing.T) {
	t.Parallel()
	c := collection(t)
	for name, m := range map[string]mongo.IndexModel{
		"2dsphere":                   {Keys: d("a", "2dsphere")},
		"$**":                        {Keys: d("$**", 1)},
		"array position":             {Keys: d("a.0", 1)},
		"collation option backwards": {Keys: d("a", 1), Options: options.Index().SetCollation(&options.Collation{Locale: "fr", Backwards: true})},
	} {
		_, err := c.Indexes().CreateOne(t.Context(), m)
		wantCode(t, err, 238, name)
	}
	_, err := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: d("a", 1, "b", 1), Options: options.Index().SetExpireAfterSeconds(1)})
	wantCode(t, err, 67, "compound indexes do not support TTL")
}

// clock is a time that a test can move forward.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

func TestTTL(t *testing.T) {
	t.Parallel()
	var time clock
	s, client := start(t, mongoemu.Config{Now: time.now})
	c := client.Database("db").Collection("c")
	createIndex(t, c, d("at", 1), options.Index().SetExpireAfterSeconds(100))
	past := time.now()
	must[*mongo.InsertManyResult](t)(c.InsertMany(t.Context(), []any{
		d("_id", 1, "at", past), d("_id", 2, "at", past.Add(50e9)), d("_id", 3, "at", "no date"), d("_id", 4),
		d("_id", 5, "at", bson.A{past.Add(1e15), past}),
	}))
	left := func() []bson.D {
		t.Helper()
		if err := s.ExpireDocuments(); err != nil {
			t.Fatal(err)
		}
		return all(t, must[*mongo.Cursor](t)(c.Find(t.Context(), d())), nil)
	}
	equalIDs(t, left(), 1, 2, 3, 4, 5)
	time.advance(101e9)
	equalIDs(t, left(), 2, 3, 4)
	time.advance(50e9)
	equalIDs(t, left(), 3, 4)
}

// A server makes its passes over TTL indexes periodically.
func TestTTLRuns(t *testing.T) {
	t.Parallel()
	_, client := start(t, mongoemu.Config{TTLInterval: time.Millisecond})
	c := client.Database("db").Collection("c")
	createIndex(t, c, d("at", 1), options.Index().SetExpireAfterSeconds(0))
	cs := must[*mongo.ChangeStream](t)(c.Watch(t.Context(), bson.A{d("$match", d("operationType", "delete"))}))
	defer func() { _ = cs.Close(context.Background()) }()
	must[*mongo.InsertOneResult](t)(c.InsertOne(t.Context(), d("_id", 1, "at", time.Now())))
	if !cs.Next(t.Context()) {
		t.Fatal(cs.Err())
	}
}
