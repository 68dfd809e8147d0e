package readmodel

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// running runs a writer until stop is called.
func running(t *testing.T, db *mongo.Database, dead ...string) (w *Writer, stop func()) {
	t.Helper()
	return run(t, NewWriter(db, WriterOptions{Process: t.Name(), Dead: dead}))
}

func run(t *testing.T, w *Writer) (_ *Writer, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = w.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		run.Wait()
	})
	t.Cleanup(stop)
	return w, stop
}

// killed leaves a transaction open, as a process does that is killed during a creation. It
// returns the database of the process.
func killed(t *testing.T, db *mongo.Database, k model.Unit) mongoDatabase {
	t.Helper()
	m := onMongo(db)
	m.sessions.process = "killed"
	if err := Prepare(t.Context(), db, []string{k.Collection}); err != nil {
		t.Fatal(err)
	}
	session, err := m.sessions.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := session.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	in := mongo.NewSessionContext(t.Context(), session)
	write := model.Write{Unit: k, Kind: model.Create, From: 0, To: 1, Document: testkit.FromJSON(`{"a":1}`)}
	if _, err := m.update(in, watermarksCollection, []update{sideFence(&write, time.Now())}); err != nil {
		t.Fatal(err)
	}
	if err := m.insert(in, k.Collection, []bson.Raw{newDocument(&write, time.Now())}); err != nil {
		t.Fatal(err)
	}
	return m
}

// expire lets the lease of all records expire.
func expire(t *testing.T, db *mongo.Database) {
	t.Helper()
	if _, err := db.Collection(sessionsCollection).UpdateMany(t.Context(), bson.D{},
		mongo.Pipeline{{{Key: "$set", Value: bson.D{{Key: "renewedAt", Value: mongox.FromNow(-sessionsLease - time.Second)}}}}}); err != nil {
		t.Fatal(err)
	}
}

// A process that is killed within a transaction leaves it open. Another process ends it when
// the lease has expired, long before the server does, or at once if it knows that the process is
// dead.
func TestTransactionOfAKilledProcessIsEnded(t *testing.T) {
	t.Parallel()
	for name, dead := range map[string][]string{"after its lease": nil, "known to be dead": {"other", "killed"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := server.Database(t)
			k := deletable("a")
			m := killed(t, db, k)
			if dead == nil {
				expire(t, db)
			}
			w, _ := running(t, db, dead...)
			begun := time.Now()
			write := model.Write{Unit: k, Kind: model.Create, From: 0, To: 1, Document: testkit.FromJSON(`{"a":1}`)}
			for {
				results, err := w.Write(t.Context(), []model.Write{write})
				if err != nil {
					t.Fatal(err)
				}
				if results[0].Status == model.Applied {
					break
				}
				if time.Since(begun) > 45*time.Second {
					t.Fatalf("still %v after %v: %v", results[0].Status, time.Since(begun), results[0].Err)
				}
			}
			if waited := time.Since(begun); dead != nil && waited >= sessionsLease {
				t.Errorf("the transaction of a dead process was ended after %v", waited)
			}
			// Its record is removed afterwards.
			for {
				n, err := db.Collection(sessionsCollection).CountDocuments(t.Context(), bson.D{{Key: "_id", Value: m.sessions.id}})
				if err == nil && n == 0 {
					break
				}
				if err != nil || time.Since(begun) > 45*time.Second {
					t.Fatalf("the record of the killed process is left: %v", err)
				}
			}
		})
	}
}

// A process that was suspended for longer than its lease records its sessions again before
// its next transaction.
func TestSuspendedProcessRecordsItsSessionsAgain(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	m := onMongo(db)
	add := func() error {
		return m.transaction(t.Context(), func(ctx context.Context) error {
			return m.insert(ctx, "c", []bson.Raw{testkit.FromJSON(`{"a":1}`)})
		})
	}
	if err := add(); err != nil {
		t.Fatal(err)
	}
	expire(t, db)
	_, stop := running(t, db)
	gone := func() bool {
		n, err := db.Collection(sessionsCollection).CountDocuments(t.Context(), bson.D{{Key: "_id", Value: m.sessions.id}})
		return err == nil && n == 0
	}
	for !gone() {
	}
	stop()
	m.sessions.trust.End() // its clock has gone on
	if err := add(); err != nil {
		t.Errorf("a transaction in a killed session: %v", err)
	}
	if gone() {
		t.Error("the session was used without a record")
	}
}

// A process whose credentials are rotated to another user records its transactions as those
// of that user. Only a process of the same user can end them.
func TestSessionsAreRecordedForTheUserOfTheMoment(t *testing.T) {
	t.Parallel()
	connected := func(user string) bson.D {
		return bson.D{{Key: "ok", Value: 1}, {Key: "authInfo", Value: bson.D{{Key: "authenticatedUsers", Value: bson.A{bson.D{{Key: "user", Value: user}, {Key: "db", Value: "admin"}}}}}}}
	}
	recorded := bson.D{{Key: "ok", Value: 1}, {Key: "n", Value: 1}}
	server := mongotest.NewReplies(t, connected("blue"), recorded, connected("green"), recorded)
	s := newSessions(server.Client.Database("shop"))
	for i, user := range []string{"blue@admin", "green@admin"} {
		if err := s.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if record := server.Command(t, 2*i+1); !strings.Contains(record, user) {
			t.Errorf("as %s: %s", user, record)
		}
	}
}

// A session is used again for the next transaction, and the end of a writer removes the
// record.
func TestSessionsAreRecordedWhileAWriterRuns(t *testing.T) {
	t.Parallel()
	for process, want := range map[string]string{"p-0": "p-0", "": unnamed()} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			sessionsAreRecorded(t, process, want)
		})
	}
}

func sessionsAreRecorded(t *testing.T, process, want string) {
	t.Helper()
	db := server.Database(t)
	w, stop := run(t, NewWriter(db, WriterOptions{Process: process}))
	if err := Prepare(t.Context(), db, []string{"things"}); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		k := deletable(string(rune('a' + i)))
		results, err := w.Write(t.Context(), []model.Write{{Unit: k, Kind: model.Create, From: 0, To: 1, Document: testkit.FromJSON(`{"a":1}`)}})
		if err != nil || results[0].Status != model.Applied {
			t.Fatalf("%+v: %v", results, err)
		}
	}
	var record struct {
		Process  string
		User     string
		Sessions []bson.Raw
	}
	if err := db.Collection(sessionsCollection).FindOne(t.Context(), bson.D{}).Decode(&record); err != nil {
		t.Fatal(err)
	}
	if len(record.Sessions) != 1 || record.Process != want || record.User != "none" {
		t.Errorf("the record is %+v", record)
	}
	stop()
	if n, err := db.Collection(sessionsCollection).CountDocuments(t.Context(), bson.D{}); err != nil || n != 0 {
		t.Errorf("%d records are left: %v", n, err)
	}
}

// A server such as the free tier of Atlas may refuse to kill sessions. Nothing else fails.
func TestRefusedKillSessionsChangesNothingElse(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	killed(t, db, deletable("a"))
	expire(t, db)
	client, err := mongo.Connect(options.Client().ApplyURI(server.URI()).SetAppName(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	if err := client.Database("admin").RunCommand(t.Context(), bson.D{
		{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: "alwaysOn"},
		{Key: "data", Value: bson.D{{Key: "failCommands", Value: bson.A{"killSessions"}}, {Key: "errorCode", Value: mongox.CodeUnauthorized}, {Key: "appName", Value: t.Name()}}},
	}).Err(); err != nil {
		t.Fatal(err)
	}
	s := newSessions(client.Database(db.Name()))
	if err := s.endAbandoned(t.Context()); err != nil || !s.refused {
		t.Errorf("refused %v: %v", s.refused, err)
	}
	if n, err := db.Collection(sessionsCollection).CountDocuments(t.Context(), bson.D{}); err != nil || n != 0 {
		t.Errorf("%d records are left: %v", n, err)
	}
}
