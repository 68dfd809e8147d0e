package mongoemu_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// begin starts a transaction and returns the context of its commands.
func begin(t *testing.T, client *mongo.Client) (context.Context, *mongo.Session) {
	t.Helper()
	session := must[*mongo.Session](t)(client.StartSession())
	t.Cleanup(func() { session.EndSession(context.Background()) })
	if err := session.StartTransaction(options.Transaction().SetReadConcern(readconcern.Snapshot()).SetWriteConcern(writeconcern.Majority())); err != nil {
		t.Fatal(err)
	}
	return mongo.NewSessionContext(t.Context(), session), session
}

func value(t *testing.T, ctx context.Context, c *mongo.Collection, id any) any { //nolint:revive // the test comes first
	t.Helper()
	var doc bson.D
	err := c.FindOne(ctx, d("_id", id)).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return get(doc, "v")
}

func TestTransactionIsolation(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := collection(t)
	createIndex(t, c, d("v", 1), options.Index())
	insertOne(t, c, "_id", 1, "v", "old")
	insertOne(t, c, "_id", 2, "v", "old")
	insertOne(t, c, "_id", 3, "v", "old")
	in, session := begin(t, c.Database().Client())
	if v := value(t, in, c, 1); v != "old" {
		t.Errorf("%v", v)
	}
	// Writes of others after the snapshot are not visible inside, whatever plan a query
	// uses.
	must[*mongo.UpdateResult](t)(c.UpdateOne(ctx, d("_id", 2), d("$set", d("v", "new"))))
	insertOne(t, c, "_id", 4, "v", "new")
	must[*mongo.DeleteResult](t)(c.DeleteOne(ctx, d("_id", 3)))
	equalIDs(t, all(t, must[*mongo.Cursor](t)(c.Find(in, d(), options.Find().SetBatchSize(1))), nil), 1, 2, 3)
	equalIDs(t, all(t, must[*mongo.Cursor](t)(c.Find(in, d("v", "old"))), nil), 1, 2, 3)
	// The transaction's own writes are visible inside, and not outside.
	must[*mongo.UpdateResult](t)(c.UpdateOne(in, d("_id", 1), d("$set", d("v", "mine"))))
	must[*mongo.InsertOneResult](t)(c.InsertOne(in, d("_id", 5, "v", "mine")))
	equalIDs(t, all(t, must[*mongo.Cursor](t)(c.Find(in, d("v", "mine"))), nil), 1, 5)
	if v := value(t, ctx, c, 1); v != "old" {
		t.Errorf("dirty read: %v", v)
	}
	if v := value(t, ctx, c, 5); v != nil {
		t.Errorf("dirty read: %v", v)
	}
	if err := session.CommitTransaction(ctx); err != nil {
		t.Fatal(err)
	}
	if err := session.CommitTransaction(ctx); err != nil {
		t.Errorf("a repeated commit: %v", err)
	}
	equalIDs(t, all(t, must[*mongo.Cursor](t)(c.Find(ctx, d("v", "mine"))), nil), 1, 5)
	equalIDs(t, all(t, must[*mongo.Cursor](t)(c.Find(ctx, d(), options.Find().SetSort(d("_id", 1)))), nil), 1, 2, 4, 5)
}

func TestWriteConflicts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, tt := range map[string]struct {
		first, second func(context.Context, *mongo.Collection) error
	}{
		"two updates":         {change, change},
		"update and delete":   {change, remove(1)},
		"delete and update":   {remove(1), change},
		"two inserts":         {insert(9, "x"), insert(9, "y")},
		"one unique key":      {insert(8, "same"), insert(9, "same")},
		"insert of a deleted": {remove(1), insert(1, "again")},
		"freed unique key":    {remove(2), insert(9, "v2")},
	} {
		for _, committed := range []bool{false, true} {
			c := collection(t)
			createIndex(t, c, d("v", 1), options.Index().SetUnique(true))
			insertOne(t, c, "_id", 1, "v", "v1")
			insertOne(t, c, "_id", 2, "v", "v2")
			one, session := begin(t, c.Database().Client())
			two, _ := begin(t, c.Database().Client())
			value(t, two, c, 1) // takes the second's snapshot
			if err := tt.first(one, c); err != nil {
				t.Fatal(err)
			}
			if committed {
				if err := session.CommitTransaction(ctx); err != nil {
					t.Fatal(err)
				}
			}
			err := tt.second(two, c)
			if committed && mongo.IsDuplicateKeyError(err) {
				continue // the snapshot still has the key
			}
			wantCode(t, err, 112, "")
			wantLabel(t, err, "TransientTransactionError", name)
		}
	}
}

func change(ctx context.Context, c *mongo.Collection) error {
	_, err := c.UpdateOne(ctx, d("_id", 1), d("$set", d("w", bson.NewObjectID())))
	return err
}

func remove(id int) func(context.Context, *mongo.Collection) error {
	return func(ctx context.Context, c *mongo.Collection) error {
		_, err := c.DeleteOne(ctx, d("_id", id))
		return err
	}
}

func insert(id int, v string) func(context.Context, *mongo.Collection) error {
	return func(ctx context.Context, c *mongo.Collection) error {
		_, err := c.InsertOne(ctx, d("_id", id, "v", v))
		return err
	}
}

// A plain write to a document that a transaction has written waits for the end of the
// transaction.
func TestPlainWritesWaitForTransactions(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, commit := range []bool{true, false} {
		s, client := start(t, mongoemu.Config{})
		c := client.Database("db").Collection("c")
		insertOne(t, c, "_id", 1, "n", 0)
		in, session := begin(t, client)
		must[*mongo.UpdateResult](t)(c.UpdateOne(in, d("_id", 1), d("$inc", d("n", 10))))
		reply := dialRaw(t, s).run("db", d("update", "c", "updates", bson.A{d("q", d("_id", 1), "u", d("$inc", d("n", 1)))}, "maxTimeMS", 30))
		if get(reply, "code") != int32(50) {
			t.Errorf("%v", reply)
		}
		done := make(chan error, 1)
		go func() {
			_, err := c.UpdateMany(context.Background(), d(), d("$inc", d("n", 1)))
			done <- err
		}()
		var err error
		if commit {
			err = session.CommitTransaction(ctx)
		} else {
			err = session.AbortTransaction(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		want := map[bool]int64{true: 11, false: 1}[commit]
		if n := must[int64](t)(c.CountDocuments(ctx, d("n", want))); n != 1 {
			t.Errorf("commit %v: n is not %d", commit, want)
		}
	}
}

func TestTransactionLifetime(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var time clock
	_, client := start(t, mongoemu.Config{Now: time.now, TransactionLifetime: 2e9})
	c := client.Database("db").Collection("c")
	insertOne(t, c, "_id", 1, "n", 0)
	in, session := begin(t, client)
	must[*mongo.UpdateResult](t)(c.UpdateOne(in, d("_id", 1), d("$inc", d("n", 10))))
	time.advance(3e9)
	// The plain write waits until the transaction has exceeded its lifetime.
	must[*mongo.UpdateResult](t)(c.UpdateOne(ctx, d("_id", 1), d("$inc", d("n", 1))))
	_, err := c.UpdateOne(in, d("_id", 1), d("$inc", d("n", 10)))
	wantCode(t, err, 251, "has been aborted")
	wantLabel(t, err, "TransientTransactionError", "after its lifetime")
	err = session.CommitTransaction(ctx)
	wantCode(t, err, 251, "")
	wantLabel(t, err, "TransientTransactionError", "commit after its lifetime")
}

// A client may end its session while its transaction is open. The server aborts the transaction
// only when it expires.
func TestEndedSessionKeepsItsTransaction(t *testing.T) {
	t.Parallel()
	s, _ := start(t, mongoemu.Config{})
	c := dialRaw(t, s)
	in := d("lsid", lsid(1), "txnNumber", int64(1), "autocommit", false)
	for _, command := range []bson.D{
		append(d("insert", "c", "documents", bson.A{d("_id", 1)}, "startTransaction", true), in...),
		d("endSessions", bson.A{lsid(1)}),
		append(d("commitTransaction", 1), in...),
	} {
		if reply := c.run(map[bool]string{true: "db", false: "admin"}[command[0].Key == "insert"], command); get(reply, "ok") != 1.0 {
			t.Fatalf("%v: %v", command, reply)
		}
	}
}

func TestCommandsThatTransactionsRefuse(t *testing.T) {
	t.Parallel()
	c := collection(t)
	in, _ := begin(t, c.Database().Client())
	wantCode(t, c.Database().RunCommand(in, d("count", "c")).Err(), 263, "Cannot run 'count' in a multi-document transaction.")
	in, _ = begin(t, c.Database().Client())
	_, err := c.Watch(in, mongo.Pipeline{})
	wantCode(t, err, 263, "$changeStream")
}

// A collection that a transaction makes becomes visible with the commit.
func TestTransactionCreatesCollections(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := collection(t)
	in, session := begin(t, c.Database().Client())
	must[*mongo.InsertOneResult](t)(c.InsertOne(in, d("_id", 1)))
	if names := must[[]string](t)(c.Database().ListCollectionNames(ctx, d())); len(names) != 0 {
		t.Errorf("%v", names)
	}
	other, _ := begin(t, c.Database().Client())
	_, err := c.InsertOne(other, d("_id", 2))
	wantCode(t, err, 112, "")
	if err := session.CommitTransaction(ctx); err != nil {
		t.Fatal(err)
	}
	if names := must[[]string](t)(c.Database().ListCollectionNames(ctx, d())); fmt.Sprint(names) != "[c]" {
		t.Errorf("%v", names)
	}
}

// If an index was built after the snapshot, the transaction must be restarted. The index
// build waits only for transactions that have touched the collection.
func TestCatalogChangesUnderATransaction(t *testing.T) {
	t.Parallel()
	c := collection(t)
	insertOne(t, c, "_id", 1, "v", 1)
	in, _ := begin(t, c.Database().Client())
	value(t, in, c.Database().Collection("other"), 1)
	createIndex(t, c, d("v", 1), options.Index().SetUnique(true))
	_, err := c.InsertOne(in, d("_id", 2, "v", 1))
	wantCode(t, err, 246, "catalog changes")
	wantLabel(t, err, "TransientTransactionError", "catalog")
}

// createIndexes of an index that exists does not wait for a transaction that has written
// there. Building another index does, and so does create of a collection that exists.
func TestCreatingWhatExistsDuringATransaction(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{})
	c := client.Database("db").Collection("c")
	createIndex(t, c, d("v", 1), options.Index())
	in, _ := begin(t, client)
	must[*mongo.InsertOneResult](t)(c.InsertOne(in, d("_id", 1)))

	raw := dialRaw(t, s)
	index := func(field string) bson.D {
		return d("createIndexes", "c", "indexes", bson.A{d("key", d(field, 1), "name", field+"_1")}, "maxTimeMS", 30)
	}
	if reply := raw.run("db", d("create", "c", "maxTimeMS", 30)); get(reply, "code") != int32(50) {
		t.Errorf("create of an existing collection answers %v, want code 50", reply)
	}
	if reply := raw.run("db", index("v")); get(reply, "ok") != 1.0 {
		t.Errorf("createIndexes of an existing index answers %v, want ok", reply)
	}
	if reply := raw.run("db", index("w")); get(reply, "code") != int32(50) {
		t.Errorf("createIndexes of a new index answers %v, want code 50", reply)
	}
}

// The events of a transaction come together and only after its commit. They have its
// session and number.
func TestTransactionEvents(t *testing.T) {
	t.Parallel()
	c := collection(t)
	insertOne(t, c, "_id", 0)
	cs := watch(t, c, inserts, options.ChangeStream().SetMaxAwaitTime(time.Millisecond))
	in, session := begin(t, c.Database().Client())
	must[*mongo.InsertManyResult](t)(c.InsertMany(in, []any{d("_id", 1), d("_id", 2)}))
	idleFor(t, cs, 3)
	insertOne(t, c, "_id", 3)
	if err := session.CommitTransaction(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := next(t, cs); get(e, "documentKey", "_id") != int32(3) || get(e, "lsid") != nil {
		t.Errorf("%v", e)
	}
	first, second := next(t, cs), next(t, cs)
	if get(first, "clusterTime") != get(second, "clusterTime") || get(first, "txnNumber") != int64(1) ||
		fmt.Sprint(get(first, "lsid", "id")) != fmt.Sprint(get(second, "lsid", "id")) || get(first, "lsid", "uid") == nil {
		t.Errorf("%v, %v", first, second)
	}
}

// idleFor checks a few times that a stream has no event.
func idleFor(t *testing.T, cs *mongo.ChangeStream, times int) {
	t.Helper()
	for range times {
		if cs.TryNext(t.Context()) || cs.Err() != nil {
			t.Fatal(cs.Current, cs.Err())
		}
	}
}

func TestOperationTimesOnlyIncrease(t *testing.T) {
	t.Parallel()
	s, _ := start(t, mongoemu.Config{})
	c := dialRaw(t, s)
	var cluster, operation bson.Timestamp
	seen := func(r bson.D) {
		t.Helper()
		ct, ot := get(r, "$clusterTime", "clusterTime").(bson.Timestamp), get(r, "operationTime").(bson.Timestamp)
		if cluster.After(ct) || operation.After(ot) || ot.After(ct) {
			t.Errorf("cluster time %v after %v, operation time %v after %v", ct, cluster, ot, operation)
		}
		cluster, operation = ct, ot
	}
	for i := range 5 {
		seen(c.run("admin", d("ping", 1)))
		seen(c.run("db", d("insert", "c", "documents", bson.A{d("_id", i)})))
		seen(c.run("db", d("find", "nowhere")))
		seen(c.run("db", d("nonsense", 1)))
	}
	// A later time from a client advances the server's time.
	later := bson.Timestamp{T: cluster.T + 100, I: 7}
	seen(c.run("admin", d("ping", 1, "$clusterTime", d("clusterTime", later))))
	if !cluster.Equal(later) {
		t.Errorf("cluster time %v, want %v", cluster, later)
	}
	r := c.run("db", d("find", "c", "readConcern", d("level", "majority", "afterClusterTime", later)))
	seen(r)
	if later.After(operation) {
		t.Errorf("read at %v, want after %v", operation, later)
	}
	r = c.run("db", d("find", "c", "readConcern", d("afterClusterTime", bson.Timestamp{T: later.T + 1})))
	if get(r, "code") != int32(72) {
		t.Errorf("%v", r)
	}
}
