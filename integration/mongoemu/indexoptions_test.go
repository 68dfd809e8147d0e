package mongoemu_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// A partial index has entries only for the documents that match its filter. Other documents
// may repeat a unique key.
func TestPartialIndexes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := collection(t)
	insertOne(t, c, "_id", 1, "a", "x", "live", true)
	insertOne(t, c, "_id", 2, "a", "x", "live", false)
	insertOne(t, c, "_id", 3, "a", "x")
	createIndex(t, c, d("a", 1), options.Index().SetUnique(true).SetPartialFilterExpression(d("live", true)))
	_, err := c.InsertOne(ctx, d("_id", 4, "a", "x", "live", true))
	wantCode(t, err, 11000, `index: a_1 dup key: { a: "x" }`)
	_, err = c.UpdateOne(ctx, d("_id", 2), d("$set", d("live", true)))
	wantCode(t, err, 11000, `index: a_1 dup key: { a: "x" }`)
	must[*mongo.UpdateResult](t)(c.UpdateOne(ctx, d("_id", 1), d("$set", d("live", false))))
	must[*mongo.UpdateResult](t)(c.UpdateOne(ctx, d("_id", 2), d("$set", d("live", true))))
	_, err = c.UpdateOne(ctx, d("_id", 1), d("$set", d("live", true)))
	wantCode(t, err, 11000, `index: a_1 dup key: { a: "x" }`)
	// Queries also return documents that the index does not have.
	equalIDs(t, all(t, must[*mongo.Cursor](t)(c.Find(ctx, d("a", "x"))), nil), 1, 2, 3)
	equalIDs(t, all(t, must[*mongo.Cursor](t)(c.Find(ctx, d("a", "x", "live", true))), nil), 2)
	// A hint is followed even if the index does not have all documents.
	equalIDs(t, all(t, must[*mongo.Cursor](t)(c.Find(ctx, d("a", "x"), options.Find().SetHint("a_1"))), nil), 2)
	for _, filter := range []bson.D{
		d("live", d("$exists", false)), d("live", d("$ne", 1)), d("live", d("$not", d("$gt", 1))), d("$nor", bson.A{d("live", 1)}),
		d("live", bson.Regex{Pattern: "x"}), d("$or", bson.A{d("live", d("$nin", bson.A{1}))}),
	} {
		_, err := c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: d("b", 1), Options: options.Index().SetPartialFilterExpression(filter)})
		wantCode(t, err, 67, "Expression not supported in partial index")
	}
	_, err = c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: d("b", 1), Options: options.Index().SetSparse(true).SetPartialFilterExpression(d("live", true))})
	wantCode(t, err, 67, "cannot mix")
	// Two indexes on the same fields may differ by their filters.
	createIndex(t, c, d("a", 1), options.Index().SetName("other").SetUnique(true).SetPartialFilterExpression(d("live", "other")))
	_, err = c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: d("a", 1), Options: options.Index().SetName("third").SetUnique(true).SetPartialFilterExpression(d("live", true))})
	wantCode(t, err, 85, "Index already exists with a different name: a_1")
}

// A query uses a partial index only if all documents that it can match are in the index.
func TestPartialIndexPlans(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		partial, filter bson.D
		uses            bool
	}{
		{d("n", d("$gt", 5)), d("n", d("$gt", 5)), true},
		{d("n", d("$gt", 5)), d("n", d("$gt", 6)), true},
		{d("n", d("$gt", 5)), d("n", d("$gte", 5)), false},
		{d("n", d("$gt", 5)), d("n", 6), true},
		{d("n", d("$gt", 5)), d("n", 5), false},
		{d("n", d("$gt", 5)), d("n", d("$in", bson.A{6, 7})), true},
		{d("n", d("$gt", 5)), d("n", d("$in", bson.A{5, 6})), false},
		{d("n", d("$gt", 5)), d("n", "x"), false},
		{d("n", d("$gt", 5)), d(), false},
		{d("n", d("$lte", 5)), d("n", d("$lt", 5)), true},
		{d("n", d("$lte", 5)), d("n", d("$gt", 1)), false},
		{d("n", d("$exists", true)), d("n", 1), true},
		{d("n", d("$exists", true)), d("n", d("$gt", 1)), true},
		{d("n", d("$exists", true)), d("n", nil), false},
		{d("n", d("$exists", true)), d("n", d("$exists", true)), true},
		{d("n", d("$type", "string")), d("n", "x"), true},
		{d("n", d("$type", "string")), d("n", d("$gte", "x")), false},
		{d("n", d("$type", "string")), d("n", d("$type", "string")), true},
		{d("n", d("$in", bson.A{1, 2})), d("n", 2), true},
		{d("n", d("$in", bson.A{1, 2})), d("n", 3), false},
		{d("$or", bson.A{d("n", 1), d("m", 1)}), d("m", 1), true},
		{d("n", 1, "m", 1), d("n", 1), false},
		{d("n", 1), d("$or", bson.A{d("n", 1, "m", 1), d("n", 1, "m", 2)}), true},
		{d("n", 1), d("$or", bson.A{d("n", 1), d("m", 2)}), false},
	} {
		c := collection(t)
		createIndex(t, c, d("a", 1), options.Index().SetPartialFilterExpression(tt.partial))
		want := "COLLSCAN "
		if tt.uses {
			want = "FETCH IXSCAN a_1 "
		}
		if got := plan(t, c, append(d("a", 1), tt.filter...), d()); got != want {
			t.Errorf("index of %v, filter %v: %q, want %q", tt.partial, tt.filter, got, want)
		}
	}
}

// createIndexes accepts the output of listIndexes, so a copied collection has the same
// indexes.
func TestIndexesRoundTrip(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, client := start(t, mongoemu.Config{})
	db := client.Database("db")
	collation := &options.Collation{Locale: "en", Strength: 2}
	if err := db.CreateCollection(ctx, "old", options.CreateCollection().SetCollation(collation).SetValidator(d("a", d("$exists", true)))); err != nil {
		t.Fatal(err)
	}
	old := db.Collection("old")
	createIndex(t, old, d("unique", 1, "b", -1), options.Index().SetUnique(true))
	createIndex(t, old, d("sparse.field", -1), options.Index().SetSparse(true))
	createIndex(t, old, d("ttl", 1), options.Index().SetExpireAfterSeconds(3600).SetPartialFilterExpression(d("n", d("$gt", 1))))
	createIndex(t, old, d("hidden", 1), options.Index().SetHidden(true).SetName("named"))
	createIndex(t, old, d("other", 1), options.Index().SetCollation(&options.Collation{Locale: "de", Strength: 1, NumericOrdering: true}))
	createIndex(t, old, d("binary", 1), options.Index().SetCollation(&options.Collation{Locale: "simple"}))

	var listed struct {
		Cursor struct{ FirstBatch []bson.D }
	}
	list := func(name string, into any) {
		t.Helper()
		if err := db.RunCommand(ctx, d("listIndexes", name)).Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	list("old", &listed)
	specifications := must[[]mongo.CollectionSpecification](t)(db.ListCollectionSpecifications(ctx, d("name", "old")))
	create := d("create", "new")
	var collectionOptions bson.D
	if err := bson.Unmarshal(specifications[0].Options, &collectionOptions); err != nil {
		t.Fatal(err)
	}
	if err := db.RunCommand(ctx, append(create, collectionOptions...)).Err(); err != nil {
		t.Fatal(err)
	}
	// listIndexes does not show the simple collation, so a copy must request it.
	copied := []bson.D{}
	for _, spec := range listed.Cursor.FirstBatch {
		if get(spec, "collation") == nil {
			spec = append(spec, bson.E{Key: "collation", Value: d("locale", "simple")})
		}
		copied = append(copied, spec)
	}
	if err := db.RunCommand(ctx, d("createIndexes", "new", "indexes", copied)).Err(); err != nil {
		t.Fatal(err)
	}
	var again struct {
		Cursor struct{ FirstBatch []bson.D }
	}
	list("new", &again)
	without := func(specs []bson.D) (out []bson.D) {
		for _, spec := range specs {
			var kept bson.D
			for _, e := range spec {
				if e.Key != "ns" {
					kept = append(kept, e)
				}
			}
			out = append(out, kept)
		}
		return out
	}
	if got, want := relaxed(t, without(again.Cursor.FirstBatch)), relaxed(t, without(listed.Cursor.FirstBatch)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// Creating the same indexes again changes nothing.
	var reply bson.D
	if err := db.RunCommand(ctx, d("createIndexes", "new", "indexes", copied)).Decode(&reply); err != nil || get(reply, "note") != "all indexes already exist" {
		t.Errorf("%v, %v", reply, err)
	}
}

func TestCollModOfIndexes(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{})
	c := client.Database("db").Collection("c")
	createIndex(t, c, d("at", 1), options.Index().SetExpireAfterSeconds(10))
	createIndex(t, c, d("a", 1), options.Index().SetUnique(true))
	insertOne(t, c, "_id", 1, "a", 1)
	if got := plan(t, c, d("a", 1), d()); got != "FETCH IXSCAN a_1 " {
		t.Error(got)
	}
	follow(t, dialRaw(t, s), []step{
		{`{"collMod": "c", "index": {"keyPattern": {"at": 1}, "expireAfterSeconds": 20}}`, `{"ok": 1.0, "expireAfterSeconds_old": 10, "expireAfterSeconds_new": 20}`},
		{`{"collMod": "c", "index": {"name": "a_1", "hidden": true}}`, `{"ok": 1.0, "hidden_old": false, "hidden_new": true}`},
		{`{"collMod": "c", "index": {"name": "a_1", "hidden": true}}`, `{"ok": 1.0, "hidden_new": "<none>"}`},
		{`{"listIndexes": "c"}`, `{"cursor": {"firstBatch": [{"name": "_id_"}, {"name": "at_1", "expireAfterSeconds": 20}, {"name": "a_1", "hidden": true}]}}`},
		// A hidden index is maintained, and enforces its unique keys.
		{`{"insert": "c", "documents": [{"_id": 2, "a": 1}]}`, `{"writeErrors": [{"code": 11000}]}`},
		{`{"find": "c", "filter": {"a": 1}, "hint": "a_1"}`, `{"ok": 0.0, "code": 2}`},
		{`{"collMod": "c", "index": {"name": "b_1", "hidden": true}}`, `{"ok": 0.0, "code": 27}`},
		{`{"collMod": "c", "index": {"name": "_id_", "hidden": true}}`, `{"ok": 0.0, "code": 2}`},
		{`{"collMod": "c", "index": {"name": "a_1"}}`, `{"ok": 0.0, "code": 72}`},
		{`{"collMod": "c", "index": {"hidden": true}}`, `{"ok": 0.0, "code": 72}`},
		{`{"collMod": "c", "index": {"name": "a_1", "unique": true}}`, `{"ok": 0.0, "code": 238}`},
	})
	if got := plan(t, c, d("a", 1), d()); got != "COLLSCAN " {
		t.Error(got)
	}
}
