package mongoemu_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
)

// Faults fail and delay commands and the writes of single documents, until they are cleared.
func TestFaults(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{})
	c := client.Database("db").Collection("c")
	s.FailCommands(mongoemu.CommandFault{Commands: []string{"insert"}, Code: 8000, Message: "no", Times: 2})
	for range 2 {
		_, err := c.InsertOne(t.Context(), d("_id", 2))
		wantCode(t, err, 8000, "no")
	}
	insertOne(t, c, "_id", 2)

	s.FailCommands(mongoemu.CommandFault{Commands: []string{"ping"}, Block: 30 * time.Millisecond})
	started := time.Now()
	if err := client.Ping(t.Context(), nil); err != nil || time.Since(started) < 30*time.Millisecond {
		t.Errorf("ping took %s, %v", time.Since(started), err)
	}
	s.SetLatency(20 * time.Millisecond)
	started = time.Now()
	if err := client.Ping(t.Context(), nil); err != nil || time.Since(started) < 20*time.Millisecond {
		t.Errorf("ping took %s, %v", time.Since(started), err)
	}
	s.FailCommands(mongoemu.CommandFault{Commands: []string{"drop"}, Code: 8000})
	s.FailDocuments(mongoemu.DocumentFault{Collection: "c", IDs: []string{"broken"}, Code: 6})
	if _, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "broken"}}); err == nil {
		t.Error("the document was inserted")
	}
	s.ClearFaults()
	if n := s.PendingFaults(); n != 0 {
		t.Errorf("%d faults are left", n)
	}
	insertOne(t, c, "_id", "broken")
}

// A stream survives what the driver resumes from, and ends at what loses its history.
func TestFaultsOfStreams(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{})
	c := client.Database("db").Collection("c")
	cs := watch(t, c, mongo.Pipeline{})
	if all, streams := s.OpenCursors(); all != 1 || streams != 1 {
		t.Errorf("%d cursors, %d streams", all, streams)
	}
	if n := s.InterruptStreams(189); n != 1 {
		t.Errorf("interrupted %d streams", n)
	}
	insertOne(t, c, "_id", 3)
	next(t, cs) // the driver has resumed
	if n := s.KillCursors(); n != 1 {
		t.Errorf("killed %d cursors", n)
	}
	insertOne(t, c, "_id", 4)
	next(t, cs)
	s.InterruptStreams(280)
	insertOne(t, c, "_id", 5)
	if cs.Next(t.Context()) {
		t.Errorf("resumed after 280: %v", cs.Current)
	}
	token := cs.ResumeToken()
	insertOne(t, c, "_id", 6)
	s.TruncateOplog(1)
	_, err := c.Watch(t.Context(), mongo.Pipeline{}, resumeAfter(token))
	wantCode(t, err, 286, "")
	if n := s.DropConnections("nobody"); n != 0 {
		t.Errorf("dropped %d connections of nobody", n)
	}
	if n := s.DropConnections(); n < 1 {
		t.Errorf("dropped %d connections", n)
	}
}

// A fault can be limited to one application, begin later, and last.
func TestFaultsAffectOnlyTheirTarget(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{})
	other := mongoemutest.Connect(t, s, appName("other"))
	s.FailCommands(mongoemu.CommandFault{Commands: []string{"ping"}, Code: 8000, AppName: "other", Skip: 1, Times: -1})
	for range 3 {
		if err := client.Ping(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	if err := other.Ping(t.Context(), nil); err != nil {
		t.Error(err)
	}
	for range 3 {
		wantCode(t, other.Ping(t.Context(), nil), 8000, "")
	}
	s.ClearFaults()
	if err := other.Ping(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// If a stream is interrupted, its waiting getMore ends immediately.
func TestInterruptWakesAWaitingStream(t *testing.T) {
	t.Parallel()
	s, _ := start(t, mongoemu.Config{})
	c := dialRaw(t, s)
	r := c.run("db", d("aggregate", "c", "pipeline", bson.A{d("$changeStream", d())}, "cursor", d()))
	id := get(r, "cursor", "id")
	waiting := make(chan bson.D)
	go func() { waiting <- c.run("db", d("getMore", id, "collection", "c", "maxTimeMS", 60000)) }()
	for s.InterruptStreams(0) == 0 {
		t.Fatal("no open stream")
	}
	r = <-waiting
	if get(r, "code") != int32(11602) || len(get(r, "errorLabels").(bson.A)) != 1 || get(r, "errorLabels").(bson.A)[0] != "ResumableChangeStreamError" || get(r, "topologyVersion") == nil {
		t.Errorf("%v", r)
	}
	if r := c.run("db", d("getMore", id, "collection", "c")); get(r, "code") != int32(43) {
		t.Errorf("%v", r)
	}
}

// TestHeldCommandIsCarriedOutAfterClear checks that a fault can hold the commands on one
// collection while other commands pass, and that a held command is carried out even if its
// client has gone.
func TestHeldCommandIsCarriedOutAfterClear(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{})
	db := client.Database("held")
	s.FailCommands(mongoemu.CommandFault{Commands: []string{"insert"}, Collection: "a", Hold: true})
	ctx, cancel := context.WithCancel(t.Context())
	inserted := make(chan error)
	go func() {
		_, err := db.Collection("a").InsertOne(ctx, bson.D{{Key: "_id", Value: 1}})
		inserted <- err
	}()
	if _, err := db.Collection("b").InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return s.PendingFaults() == 0 })
	cancel()
	if err := <-inserted; !errors.Is(err, context.Canceled) {
		t.Errorf("the held insert ended with %v", err)
	}
	if _, err := db.Collection("a").InsertOne(t.Context(), bson.D{{Key: "_id", Value: 2}}); err != nil {
		t.Error(err)
	}
	count := func() int64 {
		n, err := db.Collection("a").CountDocuments(t.Context(), bson.D{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(); n != 1 {
		t.Errorf("%d documents while the insert is held", n)
	}
	s.ClearFaults()
	eventually(t, func() bool { return count() == 2 })
}

// eventually waits until the condition holds, or the test's deadline ends.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

func TestCommandsAreCountedByDatabase(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{})
	for range 3 {
		if err := client.Database("busy").RunCommand(t.Context(), bson.D{{Key: "count", Value: "c"}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.CommandsByDatabase(); got["busy"] != 3 || got["idle"] != 0 {
		t.Errorf("counted %v", got)
	}
}
