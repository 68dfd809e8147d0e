package mongoemu_test

import (
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

func openCursor(t *testing.T, c *rawClient, extra ...any) any {
	t.Helper()
	r := c.run("db", append(d("find", "c", "batchSize", 1), d(extra...)...))
	id := get(r, "cursor", "id")
	if id == int64(0) || id == nil {
		t.Fatalf("no cursor: %v", r)
	}
	return id
}

func filled(t *testing.T) (*mongoemu.Server, *mongo.Client) {
	t.Helper()
	s, client := start(t, mongoemu.Config{})
	must[*mongo.InsertManyResult](t)(client.Database("db").Collection("c").InsertMany(t.Context(), numbered(5)))
	return s, client
}

// A cursor belongs to its namespace and its session.
func TestCursorsAreNotShared(t *testing.T) {
	t.Parallel()
	s, _ := filled(t)
	c := dialRaw(t, s)
	plain, owned := openCursor(t, c), openCursor(t, c, "lsid", lsid(1))
	for _, tt := range []struct {
		command bson.D
		code    any
	}{
		{d("getMore", plain, "collection", "other"), int32(13)},
		{d("getMore", plain, "collection", "c", "lsid", lsid(1)), int32(50736)},
		{d("getMore", plain), int32(40414)},
		{d("getMore", owned, "collection", "c"), int32(50737)},
		{d("getMore", owned, "collection", "c", "lsid", lsid(2)), int32(50738)},
		{d("getMore", plain, "collection", "c", "maxTimeMS", 5), int32(2)},
		{d("getMore", plain, "collection", "c", "strange", 5), int32(40415)},
		{d("getMore", plain, "collection", "c", "batchSize", 1), nil},
		{d("getMore", owned, "collection", "c", "lsid", lsid(1)), nil},
	} {
		if r := c.run("db", tt.command); get(r, "code") != tt.code {
			t.Errorf("%v: %v", tt.command, r)
		}
	}
	if r := c.run("db", d("getMore", plain, "collection", "c", "batchSize", 10)); get(r, "cursor", "id") != int64(0) || len(get(r, "cursor", "nextBatch").(bson.A)) != 3 {
		t.Errorf("%v", r)
	}
	if r := c.run("db", d("getMore", plain, "collection", "c")); get(r, "code") != int32(43) {
		t.Errorf("%v", r)
	}
}

// A cursor belongs to its transaction, or to no transaction.
func TestCursorsOfTransactions(t *testing.T) {
	t.Parallel()
	s, _ := filled(t)
	c := dialRaw(t, s)
	in := func(session, number int64, start bool) bson.D {
		of := d("lsid", lsid(session), "txnNumber", number, "autocommit", false)
		if start {
			of = append(of, d("startTransaction", true)...)
		}
		return of
	}
	more := func(id any, code any, of bson.D) {
		t.Helper()
		if r := c.run("db", append(d("getMore", id, "collection", "c", "batchSize", 1), of...)); get(r, "code") != code {
			t.Errorf("%v, want code %v", r, code)
		}
	}
	find := func(of bson.D) any {
		t.Helper()
		return get(c.run("db", append(d("find", "c", "batchSize", 1), of...)), "cursor", "id")
	}
	inside, plain := find(in(1, 1, true)), find(d("lsid", lsid(2)))
	more(inside, nil, in(1, 1, false))
	more(inside, int32(50740), d("lsid", lsid(1)))
	find(in(1, 2, true))
	more(inside, int32(50741), in(1, 2, false))
	find(in(2, 1, true))
	more(plain, int32(50739), in(2, 1, false))
	more(plain, nil, d("lsid", lsid(2)))
}

func TestKillSessions(t *testing.T) {
	t.Parallel()
	s, _ := filled(t)
	c := dialRaw(t, s)
	killed, kept := openCursor(t, c, "lsid", lsid(1)), openCursor(t, c, "lsid", lsid(2))
	if r := c.run("admin", d("killSessions", bson.A{lsid(1)})); get(r, "ok") != 1.0 {
		t.Error(r)
	}
	if r := c.run("db", d("getMore", killed, "collection", "c", "lsid", lsid(1))); get(r, "code") != int32(43) {
		t.Error(r)
	}
	if r := c.run("db", d("getMore", kept, "collection", "c", "lsid", lsid(2), "batchSize", 1)); get(r, "ok") != 1.0 {
		t.Error(r)
	}
	if open, _ := s.OpenCursors(); open != 1 {
		t.Errorf("%d open cursors", open)
	}
}

// A collection changes under an open cursor. Inserted and deleted documents may be returned
// or not; a drop ends the cursor.
func TestCursorsOverAChangingCollection(t *testing.T) {
	t.Parallel()
	s, client := filled(t)
	c := dialRaw(t, s)
	coll := client.Database("db").Collection("c")
	id := openCursor(t, c)
	must[*mongo.DeleteResult](t)(coll.DeleteOne(t.Context(), d("_id", 1)))
	insertOne(t, coll, "_id", 9)
	if r := c.run("db", d("getMore", id, "collection", "c")); fmt.Sprint(batchIDs(r)) != "[2 3 4 9]" {
		t.Errorf("%v", r)
	}
	id = openCursor(t, c)
	if err := coll.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := c.run("db", d("getMore", id, "collection", "c")); get(r, "code") != int32(175) || get(r, "codeName") != "QueryPlanKilled" {
		t.Errorf("%v", r)
	}
}

func batchIDs(r bson.D) []any {
	var out []any
	for _, doc := range get(r, "cursor", "nextBatch").(bson.A) {
		out = append(out, get(doc.(bson.D), "_id"))
	}
	return out
}

func TestDiagnostics(t *testing.T) {
	t.Parallel()
	s, _ := filled(t)
	c := dialRaw(t, s)
	for _, tt := range []struct {
		db      string
		command bson.D
		want    bson.D
	}{
		{"db", d("collStats", "c"), d("ns", "db.c", "count", int32(5), "nindexes", int32(1))},
		{"db", d("collStats", "nowhere"), d("count", int32(0))},
		{"local", d("collStats", "oplog.rs"), d("ns", "local.oplog.rs", "capped", true, "count", int32(7))},
		{"db", d("dbStats", 1), d("code", int32(59))},
		{"admin", d("serverStatus", 1), d("version", mongoemu.Version)},
		{"admin", d("replSetGetStatus", 1), d("set", "rs0", "myState", int32(1))},
		{"admin", d("getParameter", 1, "featureCompatibilityVersion", 1), d("featureCompatibilityVersion", d("version", "7.0"))},
		{"admin", d("getParameter", 1, "strange", 1), d("code", int32(238))},
		{"admin", d("getCmdLineOpts", 1), d("ok", 1.0)},
		{"admin", d("connectionStatus", 1), d("ok", 1.0)},
		{"db", d("listDatabases", 1), d("code", int32(13))},
		{"admin", d("listDatabases", 1, "nameOnly", true), d("databases", bson.A{d("name", "db")})},
		{"admin", d("listDatabases", 1, "filter", d("name", "x")), d("databases", bson.A{})},
		{"db", d("collMod", "c"), d("ok", 1.0)},
		{"db", d("collMod", "c", "expireAfterSeconds", 1), d("code", int32(238))},
		{"db", d("create", "x", "capped", true), d("code", int32(238))},
		{"db", d("create", "x", "timeseries", d()), d("code", int32(238))},
		{"local", d("create", "x"), d("code", int32(238))},
		{"admin", d("hello", 1, "topologyVersion", 1, "maxAwaitTimeMS", 1), d("code", int32(14))},
		{"local", d("find", "oplog.rs", "sort", d("$natural", -1), "limit", 1, "projection", d("op", 1, "ns", 1)), d("cursor", d("firstBatch", bson.A{d("op", "i", "ns", "db.c")}))},
		{"local", d("find", "oplog.rs", "sort", d("ts", -1)), d("code", int32(238))},
		{"db", d("dropIndexes", "c", "index", "*"), d("nIndexesWas", int32(1))},
		{"db", d("dropIndexes", "c", "index", d("a", 1)), d("code", int32(27))},
		{"db", d("find", "c", "filter", 1), d("code", int32(14))},
		{"db", d("find", "c", "readConcern", d("level", "snapshot")), d("code", int32(238))},
		{"db", d("aggregate", 1, "pipeline", bson.A{}, "cursor", d()), d("code", int32(238))},
		{"db", d("update", "c", "updates", bson.A{d("q", d(), "u", d("$set", d("a.$[].b", 1)))}), d("writeErrors", bson.A{d("code", int32(238))})},
		{"db", d("update", "c", "updates", bson.A{d("q", d(), "u", d("$set", d("a", 1)), "arrayFilters", bson.A{})}), d("code", int32(238))},
	} {
		got := c.run(tt.db, tt.command)
		if diff := differs("", tt.want, got); diff != "" {
			t.Errorf("%v: %s\n%v", tt.command, diff, got)
		}
	}
}

// If a client disconnects, its waiting stream ends. A write that waits for a transaction is
// still carried out, as on a real server.
func TestDisconnectedClients(t *testing.T) {
	t.Parallel()
	s, client := filled(t)
	stream, writer := dialRaw(t, s), dialRaw(t, s)
	for _, c := range []*rawClient{stream, writer} {
		c.run("admin", d("hello", 1, "client", d("application", d("name", "raw"))))
	}
	r := stream.run("db", d("aggregate", "c", "pipeline", bson.A{d("$changeStream", d())}, "cursor", d()))
	stream.send(bsonOf(t, d("getMore", get(r, "cursor", "id"), "collection", "c", "maxTimeMS", 600000, "$db", "db")))
	c := client.Database("db").Collection("c")
	in, session := begin(t, client)
	must[*mongo.UpdateResult](t)(c.UpdateOne(in, d("_id", 1), d("$set", d("x", 1))))
	writer.send(bsonOf(t, d("update", "c", "updates", bson.A{d("q", d("_id", 1), "u", d("$set", d("x", 2)))}, "$db", "db")))
	for _, raw := range []*rawClient{stream, writer} {
		if err := raw.conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, streams := s.OpenCursors(); streams > 0; _, streams = s.OpenCursors() {
		if err := client.Ping(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := session.CommitTransaction(t.Context()); err != nil {
		t.Fatal(err)
	}
	for v := any(nil); v != int32(2); {
		var doc bson.D
		if err := c.FindOne(t.Context(), d("_id", 1)).Decode(&doc); err != nil {
			t.Fatal(err)
		}
		v = get(doc, "x")
	}
}

func bsonOf(t *testing.T, doc bson.D) []byte {
	t.Helper()
	return must[[]byte](t)(bson.Marshal(doc))
}
