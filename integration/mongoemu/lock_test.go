package mongoemu_test

import (
	"context"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

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

// until returns when the command no longer succeeds within its limit, because another one
// waits before it.
func until(t *testing.T, waits func() error) {
	t.Helper()
	err := waits()
	for ; err == nil; err = waits() {
	}
	wantCode(t, err, 50, "exceeded time limit")
}

// Each command takes the locks that the server's command takes: with a transaction that has
// read the collection live, with a rename of live that waits for it, and with a dropDatabase
// that waits for it. maxTimeMS bounds each wait.
func TestLocksOfCommands(t *testing.T) {
	t.Parallel()
	document := bson.A{d("_id", 5)}
	type command struct {
		run                               bson.D
		transaction, collection, database bool // whether the command waits for it
	}
	intent := func(run bson.D) command { return command{run, false, true, true} }
	exclusive := func(run bson.D) command { return command{run, true, true, true} }
	elsewhere := func(run bson.D) command { return command{run, false, false, true} }
	free := func(run bson.D) command { return command{run, false, false, false} }
	commands := map[string]command{
		"find":                     intent(d("find", "live")),
		"count":                    intent(d("count", "live")),
		"distinct":                 intent(d("distinct", "live", "key", "n")),
		"aggregate":                intent(d("aggregate", "live", "pipeline", bson.A{}, "cursor", d())),
		"listIndexes":              intent(d("listIndexes", "live")),
		"insert":                   intent(d("insert", "live", "documents", document)),
		"update":                   intent(d("update", "live", "updates", bson.A{d("q", d("_id", 9), "u", d("$set", d("n", 1)))})),
		"delete":                   intent(d("delete", "live", "deletes", bson.A{d("q", d("_id", 9), "limit", 1)})),
		"findAndModify":            intent(d("findAndModify", "live", "query", d("_id", 9), "remove", true)),
		"createIndexes that exist": intent(d("createIndexes", "live", "indexes", bson.A{d("key", d("n", 1), "name", "n_1")})),
		"createIndexes":            exclusive(d("createIndexes", "live", "indexes", bson.A{d("key", d("a", 1), "name", "a_1")})),
		"dropIndexes":              exclusive(d("dropIndexes", "live", "index", "n_1")),
		"collMod":                  exclusive(d("collMod", "live", "validator", d())),
		"drop":                     exclusive(d("drop", "live")),
		"dropDatabase":             exclusive(d("dropDatabase", 1)),
		"find elsewhere":           elsewhere(d("find", "unrelated")),
		"insert elsewhere":         elsewhere(d("insert", "unrelated", "documents", document)),
		"create":                   elsewhere(d("create", "another")),
		"listCollections":          elsewhere(d("listCollections", 1)),
		"create of what exists":    exclusive(d("create", "live")),
		"a change stream":          free(d("aggregate", "live", "pipeline", bson.A{d("$changeStream", d())}, "cursor", d())),
		"admin: rename over it":    exclusive(d("renameCollection", "db.next", "to", "db.live", "dropTarget", true)),
		"admin: rename of it":      exclusive(d("renameCollection", "db.live", "to", "db.other")),
		"admin: listDatabases":     free(d("listDatabases", 1)),
	}
	for situation, waiting := range map[string]bson.D{
		"a transaction": nil,
		"a rename":      d("renameCollection", "db.next", "to", "db.live", "dropTarget", true),
		"a drop":        d("dropDatabase", 1),
	} {
		t.Run(situation, func(t *testing.T) {
			t.Parallel()
			client, live := lockServer(t)
			db, admin := live.Database(), client.Database("admin")
			readLive(t, client)
			if waiting != nil {
				on := db
				if situation == "a rename" {
					on = admin
				}
				go on.RunCommand(t.Context(), waiting) // until the server closes
				until(t, func() error { return db.RunCommand(t.Context(), append(d("find", "live"), limit)).Err() })
			}
			for name, c := range commands {
				on := db
				if strings.HasPrefix(name, "admin: ") {
					on = admin
				}
				waits := map[string]bool{"a transaction": c.transaction, "a rename": c.collection, "a drop": c.database}[situation]
				if waits {
					err := on.RunCommand(t.Context(), append(c.run, limit)).Err()
					if err == nil {
						t.Errorf("%s does not wait for %s", name, situation)
					} else {
						wantCode(t, err, 50, "exceeded time limit")
					}
					continue
				}
				err := on.RunCommand(t.Context(), append(c.run, bson.E{Key: "maxTimeMS", Value: 10_000})).Err()
				if err != nil {
					t.Errorf("%s with %s: %v", name, situation, err)
				}
			}
		})
	}
}

// Once the transaction has ended, the exclusive commands pass.
func TestExclusiveCommandsPassAfterTheTransaction(t *testing.T) {
	t.Parallel()
	client, live := lockServer(t)
	_, session := readLive(t, client)
	dropped := make(chan error, 1)
	go func() { dropped <- live.Database().Drop(t.Context()) }()
	until(t, func() error { return live.Database().RunCommand(t.Context(), append(d("find", "live"), limit)).Err() })
	// Other transactions give up after 5 ms, also where they would use another collection.
	in, other := begin(t, client)
	wantCode(t, live.Database().Collection("unrelated").FindOne(in, d("_id", 1)).Err(), 24, "Unable to acquire")
	wantCode(t, other.CommitTransaction(t.Context()), 251, "")
	if err := session.AbortTransaction(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-dropped; err != nil {
		t.Fatal(err)
	}
	if n := must[int64](t)(live.CountDocuments(t.Context(), d())); n != 0 {
		t.Errorf("%d documents are left", n)
	}
}

// maxTimeMS of a find bounds the getMores of its cursor together, also their waits for locks.
func TestMaxTimeOfAFindBoundsItsCursor(t *testing.T) {
	t.Parallel()
	client, live := lockServer(t)
	insertOne(t, live, "_id", 2)
	reply := must[bson.Raw](t)(live.Database().RunCommand(t.Context(), d("find", "live", "batchSize", 1, "maxTimeMS", 300)).Raw())
	readLive(t, client)
	go live.Database().RunCommand(t.Context(), d("drop", "live")) // waits until the server closes
	until(t, func() error { return live.Database().RunCommand(t.Context(), append(d("find", "live"), limit)).Err() })
	id := reply.Lookup("cursor", "id").Int64()
	wantCode(t, live.Database().RunCommand(t.Context(), d("getMore", id, "collection", "live")).Err(), 50, "exceeded time limit")
}

// Operations that come later wait behind an exclusive command that waits, although they
// would be compatible with the transaction. Other transactions give up at once.
func TestOperationsQueueBehindAWaitingExclusiveCommand(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client, live := lockServer(t)
	in, session := readLive(t, client)
	renamed := make(chan error, 1)
	go func() {
		renamed <- client.Database("admin").RunCommand(ctx, d("renameCollection", "db.next", "to", "db.live", "dropTarget", true)).Err()
	}()
	read := func() error { return live.Database().RunCommand(ctx, append(d("find", "live"), limit)).Err() }
	until(t, read)
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
	go func() { gaveUp <- live.Database().RunCommand(t.Context(), d("drop", "live", "maxTimeMS", 300)).Err() }()
	until(t, func() error { return live.Database().RunCommand(t.Context(), append(d("find", "live"), limit)).Err() })
	if err := live.FindOne(t.Context(), d("_id", 1)).Err(); err != nil {
		t.Errorf("a read that waited behind the drop: %v", err)
	}
	wantCode(t, <-gaveUp, 50, "exceeded time limit")
}
