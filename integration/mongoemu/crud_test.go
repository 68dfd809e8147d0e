package mongoemu_test

import (
	"errors"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

func numbered(n int) []any {
	docs := make([]any, n)
	for i := range docs {
		docs[i] = d("_id", int32(i), "group", int32(i%3), "name", fmt.Sprintf("n%03d", i))
	}
	return docs
}

func ids(docs []bson.D) []any {
	out := []any{}
	for _, doc := range docs {
		out = append(out, get(doc, "_id"))
	}
	return out
}

func equalIDs(t *testing.T, got []bson.D, want ...int) {
	t.Helper()
	if fmt.Sprint(ids(got)) != fmt.Sprint(want) {
		t.Errorf("ids %v, want %v", ids(got), want)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := collection(t)
	must[*mongo.InsertManyResult](t)(c.InsertMany(ctx, numbered(10)))
	find := func(filter bson.D, o *options.FindOptionsBuilder) []bson.D {
		t.Helper()
		cursor, err := c.Find(ctx, filter, o)
		return all(t, cursor, err)
	}
	equalIDs(t, find(d(), options.Find()), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	equalIDs(t, find(d(), options.Find().SetBatchSize(3)), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	equalIDs(t, find(d(), options.Find().SetBatchSize(2).SetLimit(5).SetSkip(1)), 1, 2, 3, 4, 5)
	equalIDs(t, find(d("group", 1), options.Find().SetSort(d("_id", -1))), 7, 4, 1)
	equalIDs(t, find(d(), options.Find().SetSort(d("group", -1, "name", 1)).SetLimit(4).SetBatchSize(1)), 2, 5, 8, 1)
	equalIDs(t, find(d(), options.Find().SetSort(d("$natural", -1)).SetLimit(2)), 9, 8)
	equalIDs(t, find(d("_id", d("$in", bson.A{7, 3, 99, 3})), options.Find()), 3, 7)
	equalIDs(t, find(d("_id", d("$gte", 8)), options.Find().SetSort(d("_id", -1))), 9, 8)
	equalIDs(t, find(d("_id", d("$lt", 0)), options.Find()))

	docs := find(d("_id", 1), options.Find().SetProjection(d("name", 1)))
	if s := docs[0].String(); s != `{"_id":{"$numberInt":"1"},"name":"n001"}` {
		t.Error(s)
	}
	docs = find(d("_id", 1), options.Find().SetProjection(d("name", 0, "_id", 0)))
	if s := docs[0].String(); s != `{"group":{"$numberInt":"1"}}` {
		t.Error(s)
	}
	docs = find(d("_id", 1), options.Find().SetProjection(d("_id", 0, "sum", d("$add", bson.A{"$group", 1}))))
	if s := docs[0].String(); s != `{"sum":{"$numberInt":"2"}}` {
		t.Error(s)
	}
	if err := c.FindOne(ctx, d("_id", 99)).Err(); !errors.Is(err, mongo.ErrNoDocuments) {
		t.Error(err)
	}
}

func TestFindRefusesUnsupportedOptions(t *testing.T) {
	t.Parallel()
	c := collection(t)
	for name, o := range map[string]*options.FindOptionsBuilder{
		"collation strength": options.Find().SetCollation(&options.Collation{Locale: "de", Strength: 5}),
		"returnKey":          options.Find().SetReturnKey(true),
		"tailable":           options.Find().SetCursorType(options.Tailable),
		"$slice":             options.Find().SetProjection(d("a", d("$slice", 1))),
		"$elemMatch":         options.Find().SetProjection(d("a", d("$elemMatch", d("x", 1)))),
		"a.$":                options.Find().SetProjection(d("a.$", 1)),
		"let":                options.Find().SetLet(d("x", 1)),
	} {
		_, err := c.Find(t.Context(), d(), o)
		wantCode(t, err, 238, name)
	}
}

// wantCode checks the code of a command's error, and that its text contains says.
func wantCode(t *testing.T, err error, code int32, says string) {
	t.Helper()
	var se mongo.ServerError
	if !errors.As(err, &se) || !se.HasErrorCode(int(code)) || !se.HasErrorMessage(says) {
		t.Errorf("error %v, want code %d saying %q", err, code, says)
	}
}

func TestCountDistinctAggregate(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := collection(t)
	must[*mongo.InsertManyResult](t)(c.InsertMany(ctx, numbered(10)))
	if n := must[int64](t)(c.CountDocuments(ctx, d("group", d("$gt", 0)))); n != 6 {
		t.Errorf("%d documents", n)
	}
	if n := must[int64](t)(c.EstimatedDocumentCount(ctx)); n != 10 {
		t.Errorf("%d documents", n)
	}
	if n := must[int64](t)(c.CountDocuments(ctx, d(), options.Count().SetSkip(3).SetLimit(4))); n != 4 {
		t.Errorf("%d documents", n)
	}
	var groups []int32
	if err := c.Distinct(ctx, "group", d("_id", d("$lt", 2))).Decode(&groups); err != nil || fmt.Sprint(groups) != "[0 1]" {
		t.Error(groups, err)
	}
	cursor, err := c.Aggregate(ctx, bson.A{
		d("$match", d("_id", d("$lt", 9))),
		d("$group", d("_id", "$group", "n", d("$sum", 1), "first", d("$min", "$_id"), "last", d("$max", "$_id"), "names", d("$push", "$name"))),
		d("$sort", d("_id", -1)),
		d("$project", d("n", 1, "first", 1, "last", 1, "names", 1)),
		d("$limit", 2),
	})
	docs := all(t, cursor, err)
	want := `[{"_id":2,"n":3,"first":2,"last":8,"names":["n002","n005","n008"]} {"_id":1,"n":3,"first":1,"last":7,"names":["n001","n004","n007"]}]`
	if got := relaxed(t, docs); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	cursor, err = c.Aggregate(ctx, bson.A{d("$skip", 8), d("$set", d("a", bson.A{"x", "y"})), d("$unwind", "$a"), d("$project", d("a", 1))})
	if got, want := relaxed(t, all(t, cursor, err)), `[{"_id":8,"a":"x"} {"_id":8,"a":"y"} {"_id":9,"a":"x"} {"_id":9,"a":"y"}]`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	_, err = c.Aggregate(ctx, bson.A{d("$lookup", d("from", "x"))})
	wantCode(t, err, 238, "$lookup")
	_, err = c.Aggregate(ctx, bson.A{d("$strange", 1)})
	wantCode(t, err, 40324, "$strange")
}

func relaxed(t *testing.T, docs []bson.D) string {
	t.Helper()
	out := []string{}
	for _, doc := range docs {
		out = append(out, string(must[[]byte](t)(bson.MarshalExtJSON(doc, false, false))))
	}
	return fmt.Sprint(out)
}

func TestReplaceDeleteFindAndModify(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := collection(t)
	must[*mongo.InsertManyResult](t)(c.InsertMany(ctx, numbered(6)))
	r := must[*mongo.UpdateResult](t)(c.ReplaceOne(ctx, d("_id", 0), d("x", 1)))
	if r.MatchedCount != 1 || r.ModifiedCount != 1 {
		t.Errorf("%+v", r)
	}
	r = must[*mongo.UpdateResult](t)(c.ReplaceOne(ctx, d("_id", "new", "y", 1), d("x", 1), options.Replace().SetUpsert(true)))
	if r.UpsertedID != "new" || r.MatchedCount != 0 {
		t.Errorf("%+v", r)
	}
	r = must[*mongo.UpdateResult](t)(c.UpdateMany(ctx, d("group", d("$exists", true)), d("$inc", d("group", 10))))
	if r.MatchedCount != 5 || r.ModifiedCount != 5 {
		t.Errorf("%+v", r)
	}
	if n := must[*mongo.DeleteResult](t)(c.DeleteMany(ctx, d("group", 11))).DeletedCount; n != 2 {
		t.Errorf("deleted %d", n)
	}
	if n := must[*mongo.DeleteResult](t)(c.DeleteOne(ctx, d("group", 11))).DeletedCount; n != 0 {
		t.Errorf("deleted %d", n)
	}
	var doc bson.D
	if err := c.FindOneAndUpdate(ctx, d("group", 12), d("$set", d("seen", true)),
		options.FindOneAndUpdate().SetSort(d("_id", -1)).SetReturnDocument(options.After).SetProjection(d("seen", 1))).Decode(&doc); err != nil ||
		doc.String() != `{"_id":{"$numberInt":"5"},"seen":true}` {
		t.Error(doc, err)
	}
	if err := c.FindOneAndDelete(ctx, d("_id", "new")).Decode(&doc); err != nil || get(doc, "x") != int32(1) {
		t.Error(doc, err)
	}
	if err := c.FindOneAndReplace(ctx, d("_id", "nobody"), d("x", 1)).Err(); !errors.Is(err, mongo.ErrNoDocuments) {
		t.Error(err)
	}
	left := all(t, must[*mongo.Cursor](t)(c.Find(ctx, d(), options.Find().SetSort(d("_id", 1)))), nil)
	if got, want := relaxed(t, left), `[{"_id":0,"x":1} {"_id":2,"group":12,"name":"n002"} {"_id":3,"group":10,"name":"n003"} {"_id":5,"group":12,"name":"n005","seen":true}]`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestInsertGivesIDsAndRefusesWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{})
	c := client.Database("db").Collection("c")
	raw := dialRaw(t, s)
	raw.run("db", d("insert", "c", "documents", bson.A{d("a", 1, "_id", 5, "at", bson.Timestamp{}), d("b", 1)}))
	docs := all(t, must[*mongo.Cursor](t)(c.Find(t.Context(), d())), nil)
	if docs[0][0].Key != "_id" || docs[1][0].Key != "_id" {
		t.Errorf("_id is not first: %v", docs)
	}
	if _, ok := get(docs[1], "_id").(bson.ObjectID); !ok {
		t.Errorf("no ObjectId was given: %v", docs[1])
	}
	if ts, _ := get(docs[0], "at").(bson.Timestamp); ts.IsZero() {
		t.Errorf("the empty timestamp stayed: %v", docs[0])
	}
	_, err := c.InsertOne(t.Context(), d("_id", 1, "b", make([]byte, 16<<20)))
	wantCode(t, err, 2, "object to insert too large. size in bytes: 16777238, max size: 16777216")
	_, err = c.InsertOne(t.Context(), d("_id", bson.A{1}))
	wantCode(t, err, 53, "'_id' value cannot be of type array")
}

// A batch of more than 16 MB is split, and no document is lost between the parts.
func TestLargeBatchesAreCut(t *testing.T) {
	t.Parallel()
	c := collection(t)
	const n, size = 12, 3 << 20
	for i := range n {
		must[*mongo.InsertOneResult](t)(c.InsertOne(t.Context(), d("_id", i, "b", make([]byte, size))))
	}
	cursor := must[*mongo.Cursor](t)(c.Find(t.Context(), d(), options.Find().SetBatchSize(1000)))
	if left := cursor.RemainingBatchLength(); left != 5 {
		t.Errorf("a first batch of %d documents of 3 MiB", left)
	}
	if docs := all(t, cursor, nil); len(docs) != n {
		t.Errorf("%d documents, want %d", len(docs), n)
	}
}

func TestBulkWrite(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := collection(t)
	r, err := c.BulkWrite(ctx, []mongo.WriteModel{
		mongo.NewInsertOneModel().SetDocument(d("_id", 1)),
		mongo.NewInsertOneModel().SetDocument(d("_id", 1)),
		mongo.NewUpdateOneModel().SetFilter(d("_id", 1)).SetUpdate(d("$set", d("a", 1))),
		mongo.NewUpdateOneModel().SetFilter(d("_id", 2)).SetUpdate(d("$set", d("a", 1))).SetUpsert(true),
		mongo.NewDeleteOneModel().SetFilter(d("_id", 3)),
	}, options.BulkWrite().SetOrdered(false))
	var failed mongo.BulkWriteException
	if !errors.As(err, &failed) || len(failed.WriteErrors) != 1 || failed.WriteErrors[0].Index != 1 || failed.WriteErrors[0].Code != 11000 {
		t.Fatalf("%+v", err)
	}
	if r.InsertedCount != 1 || r.ModifiedCount != 1 || r.UpsertedCount != 1 || r.UpsertedIDs[3] != int32(2) || r.DeletedCount != 0 {
		t.Errorf("%+v", r)
	}
}

func TestWriteConcerns(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{})
	write := func(wc *writeconcern.WriteConcern) error {
		_, err := client.Database("db").Collection("c", options.Collection().SetWriteConcern(wc)).InsertOne(t.Context(), d())
		return err
	}
	if err := write(writeconcern.Majority()); err != nil {
		t.Error(err)
	}
	var failed mongo.WriteException
	if err := write(&writeconcern.WriteConcern{W: 3}); !errors.As(err, &failed) || failed.WriteConcernError == nil || failed.WriteConcernError.Code != 100 {
		t.Error(err)
	}
	c := dialRaw(t, s)
	insert := func(id int, concern bson.D) bson.D {
		return c.run("db", d("insert", "c", "documents", bson.A{d("_id", id)}, "writeConcern", concern))
	}
	if r := insert(1, d("w", "majority", "j", true, "wtimeout", 1000)); get(r, "writeConcernError") != nil || get(r, "n") != int32(1) {
		t.Error(r)
	}
	if r := insert(2, d("w", 3)); get(r, "writeConcernError", "code") != int32(100) || get(r, "n") != int32(1) {
		t.Error(r)
	}
	if r := insert(3, d("w", "elsewhere")); get(r, "writeConcernError", "code") != int32(79) {
		t.Error(r)
	}
}
