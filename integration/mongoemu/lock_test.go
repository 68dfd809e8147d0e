package mongoemu_test

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// exclusive are commands on the collection live that need its exclusive lock.
func exclusive(db *mongo.Database) map[string]func(limit ...bson.E) error {
	run := func(db *mongo.Database, command bson.D) func(limit ...bson.E) error {
		return func(limit ...bson.E) error {
			return db.RunCommand(context.Background(), append(command[:len(command):len(command)], limit...)).Err()
		}
	}
	admin := db.Client().Database("admin")
	return map[string]func(limit ...bson.E) error{
		"renameCollection over it": run(admin, d("renameCollection", "db.next", "to", "db.live", "dropTarget", true)),
		"renameCollection of it":   run(admin, d("renameCollection", "db.live", "to", "db.other")),
		"createIndexes":            run(db, d("createIndexes", "live", "indexes", bson.A{d("key", d("a", 1), "name", "a_1")})),
		"dropIndexes":              run(db, d("dropIndexes", "live", "index", "n_1")),
		"collMod":                  run(db, d("collMod", "live", "validator", d())),
		"drop":                     run(db, d("drop", "live")),
		"dropDatabase":             run(db, d("dropDatabase", 1)),
	}
}

// readLive starts a transaction that has only read the collection live.
func readLive(t *testing.T, client *mongo.Client) (context.Context, *mongo.Session) {
	t.Helper()
	in, session := begin(t, client)
	if err := client.Database("db").Collection("live").FindOne(in, d("_id", 1)).Err(); err != nil {
		t.Fatal(err)
	}
	return in, session
}

func lockServer(t *testing.T) (*mongo.Client, *mongo.Collection) {
	t.Helper()
	_, client := start(t, mongoemu.Config{})
	live := client.Database("db").Collection("live")
	insertOne(t, live, "_id", 1)
	insertOne(t, client.Database("db").Collection("next"), "_id", 2)
	createIndex(t, live, d("n", 1), options.Index())
	return client, live
}

var limit = bson.E{Key: "maxTimeMS", Value: 30}

// An exclusive command waits for the end of each transaction that has touched the
// collection, also if that has only read it. maxTimeMS bounds the wait.
func TestExclusiveCommandsWaitForTransactions(t *testing.T) {
	t.Parallel()
	client, live := lockServer(t)
	_, session := readLive(t, client)
	for name, do := range exclusive(live.Database()) {
		if err := do(limit); err == nil {
			t.Errorf("%s does not wait for the transaction", name)
		} else {
			wantCode(t, err, 50, "exceeded time limit")
		}
	}
	// These find nothing to change.
	wantCode(t, live.Database().CreateCollection(t.Context(), "live"), 48, "already exists")
	createIndex(t, live, d("n", 1), options.Index())
	if err := session.AbortTransaction(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"createIndexes", "dropIndexes", "collMod", "renameCollection over it", "drop", "dropDatabase"} {
		if err := exclusive(live.Database())[name](limit); err != nil && name != "drop" && name != "dropDatabase" {
			t.Errorf("%s after the transaction: %v", name, err)
		}
	}
}

// Operations that come later wait behind an exclusive command that waits, although they
// would be compatible with the transaction. Other transactions give up at once.
func TestOperationsQueueBehindAWaitingExclusiveCommand(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client, live := lockServer(t)
	in, session := readLive(t, client)
	renamed := make(chan error, 1)
	go func() { renamed <- exclusive(live.Database())["renameCollection over it"]() }()
	read := func() error { return live.Database().RunCommand(ctx, append(d("find", "live"), limit)).Err() }
	for read() == nil { // until the rename waits
	}
	wantCode(t, read(), 50, "exceeded time limit")
	wantCode(t, live.Database().RunCommand(ctx, append(d("insert", "live", "documents", bson.A{d("_id", 5)}), limit)).Err(), 50, "exceeded time limit")
	if err := live.Database().RunCommand(ctx, append(d("find", "unrelated"), limit)).Err(); err != nil {
		t.Errorf("another collection: %v", err)
	}
	other, second := begin(t, client)
	err := live.FindOne(other, d("_id", 1)).Err()
	wantCode(t, err, 24, "Unable to acquire")
	if !err.(mongo.ServerError).HasErrorLabel("TransientTransactionError") { //nolint:errorlint,forcetypeassert // checked by wantCode
		t.Errorf("%v cannot be repeated", err)
	}
	wantCode(t, second.CommitTransaction(ctx), 251, "")
	// The transaction that holds the lock may go on.
	must[*mongo.InsertOneResult](t)(live.InsertOne(in, d("_id", 3)))
	select {
	case err := <-renamed:
		t.Fatalf("the rename did not wait: %v", err)
	default:
	}
	// The session is killed by its id, by another client of the same user.
	var lsid bson.D
	if err := bson.Unmarshal(session.ID(), &lsid); err != nil {
		t.Fatal(err)
	}
	if err := client.Database("admin").RunCommand(ctx, d("killSessions", bson.A{lsid})).Err(); err != nil {
		t.Fatal(err)
	}
	if err := <-renamed; err != nil {
		t.Fatal(err)
	}
	wantCode(t, session.CommitTransaction(ctx), 251, "")
	equalIDs(t, all(t, must[*mongo.Cursor](t)(live.Find(ctx, d())), nil), 2)
}

// A command that gives up lets those behind it pass.
func TestOperationsPassWhenTheExclusiveCommandGivesUp(t *testing.T) {
	t.Parallel()
	client, live := lockServer(t)
	readLive(t, client)
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- exclusive(live.Database())["drop"](bson.E{Key: "maxTimeMS", Value: 300}) }()
	for live.Database().RunCommand(t.Context(), append(d("find", "live"), limit)).Err() == nil { // until the drop waits
	}
	if err := live.FindOne(t.Context(), d("_id", 1)).Err(); err != nil {
		t.Errorf("a read that waited behind the drop: %v", err)
	}
	wantCode(t, <-gaveUp, 50, "exceeded time limit")
}
