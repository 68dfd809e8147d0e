package mongoemu_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

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

func relaxed(t *testing.T, docs []bson.D) string {
	t.Helper()
	out := []string{}
	for _, doc := range docs {
		out = append(out, string(must[[]byte](t)(bson.MarshalExtJSON(doc, false, false))))
	}
	return fmt.Sprint(out)
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

// $$NOW has one value in all statements of a command, which it takes before it waits for locks.
func TestNowIsOneTimeInACommand(t *testing.T) {
	t.Parallel()
	var ticking clock
	_, client := start(t, mongoemu.Config{Now: func() time.Time {
		ticking.advance(time.Second)
		return ticking.now()
	}})
	c := client.Database("db").Collection("c")
	must[*mongo.InsertManyResult](t)(c.InsertMany(t.Context(), numbered(3)))
	set := bson.A{d("$set", d("at", "$$NOW"))}
	if err := c.Database().RunCommand(t.Context(), d("update", "c", "updates", bson.A{
		d("q", d("_id", d("$lt", 2)), "u", set, "multi", true), d("q", d("_id", 2), "u", set),
	})).Err(); err != nil {
		t.Fatal(err)
	}
	var at []any
	if err := c.Distinct(t.Context(), "at", d()).Decode(&at); err != nil || len(at) != 1 {
		t.Errorf("the documents have the times %v (%v), want one", at, err)
	}
}
