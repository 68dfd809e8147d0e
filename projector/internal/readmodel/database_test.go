package readmodel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// A load is one request, also if all of its documents exist.
func TestLoadAsksOnce(t *testing.T) {
	t.Parallel()
	requests := make(chan string, 100)
	client, err := mongo.Connect(options.Client().ApplyURI(server.URI()).SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) { requests <- e.CommandName },
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	s := newTestStore(t, onMongo(client.Database(server.Database(t).Name())))
	for _, n := range []int{1, 2, 100} {
		var writes []model.Write
		var units []model.Unit
		for i := range n {
			u := keyOf(fmt.Sprintf("%d of %d", i, n))
			units = append(units, u)
			writes = append(writes, model.Write{Unit: u, Kind: model.Create, To: 1, Document: testkit.FromJSON(`{"a":1}`)})
		}
		s.apply(t, model.Applied, writes...)
		for len(requests) > 0 {
			<-requests
		}
		states, err := s.Load(t.Context(), units)
		if err != nil {
			t.Fatal(err)
		}
		for _, state := range states {
			if state.Watermark != 1 {
				t.Errorf("%+v: watermark %d, %v; want 1", state, state.Watermark, state.Unavailable)
			}
		}
		s.Release(states)
		if got := <-requests; got != "find" || len(requests) > 0 {
			t.Errorf("a load of %d documents sent %s and %d more requests, want one find", n, got, len(requests))
		}
	}
}

// A write that a failover can roll back must not count as applied, and a load must not read
// such a write. The concerns of the connection string must not matter.
func TestMajorityConfirmsReadsAndWrites(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	client, err := mongox.Open(server.URI()+"&w=1&readConcernLevel=local", mongox.Options{Monitor: &event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			path, inTransaction := []string{"writeConcern", "w"}, e.Command.Lookup("autocommit").Type != 0
			switch e.CommandName {
			case "insert", "update", "delete":
				if inTransaction {
					return // Its commit has the concern.
				}
			case "commitTransaction":
			case "find":
				path = []string{"readConcern", "level"}
			default:
				return
			}
			mu.Lock()
			defer mu.Unlock()
			seen[e.CommandName]++
			if concern, _ := e.Command.Lookup(path...).StringValueOK(); concern != "majority" {
				t.Errorf("without a majority: %s", e.Command)
			}
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	s := newTestStore(t, onMongo(client.Database(server.Database(t).Name())))
	kept, deleted := keyOf("kept"), deletable("deleted")
	for _, u := range []model.Unit{kept, deleted} {
		s.apply(t, model.Applied, model.Write{Unit: u, Kind: model.Create, To: 1, Document: testkit.FromJSON(`{"a":1}`)})
	}
	s.apply(t, model.Applied, model.Write{Unit: kept, Kind: model.Update, From: 1, To: 2, Update: testkit.FromJSON(`{"$set":{"a":2}}`)})
	s.apply(t, model.Applied, model.Write{Unit: deleted, Kind: model.Delete, From: 1, To: 2})
	s.expect(t, kept, 2, `{"a":2}`)
	for _, name := range []string{"insert", "update", "delete", "commitTransaction", "find"} {
		if seen[name] == 0 {
			t.Errorf("there was no %s", name)
		}
	}
}

// If a server has stopped answering, the abort of a transaction must not delay its group
// for long, because the other groups of the collection wait behind it.
func TestAbortThatHangsDelaysItsGroupForABoundedTime(t *testing.T) {
	t.Parallel()
	server := mongotest.NewReplies(t,
		bson.D{{Key: "ok", Value: 1}, {Key: "n", Value: 0}, {Key: "nModified", Value: 0}},
		bson.D{{Key: "ok", Value: 1}})
	server.Ignore("abortTransaction")
	w := newWriter(onMongo(server.Client.Database("shop")), WriterOptions{})
	k := deletable("a")
	done := make(chan error, 1)
	go func() {
		_, err := w.fencedGroup(t.Context(), k.Collection, []*model.Write{{Unit: k, Kind: model.Create, From: 2, To: 3, Document: testkit.FromJSON(`{"a":3}`)}})
		done <- err
	}()
	select {
	case err := <-done:
		if verdictOnCreation(err).Status != model.Stale {
			t.Errorf("error %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("still waiting after a minute")
	}
	if command := server.Command(t, 1); !strings.Contains(command, "abortTransaction") {
		t.Errorf("the transaction was left open: %s", command)
	}
}

// If the server does not answer the abort of a transaction, it keeps it open. The next
// transaction of the process ends it.
func TestNextTransactionEndsOneWhoseAbortHadNoAnswer(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	if err := db.CreateCollection(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	client, err := mongo.Connect(options.Client().ApplyURI(server.URI()).SetAppName(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	if err := client.Database("admin").RunCommand(t.Context(), bson.D{
		{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: "alwaysOn"},
		{Key: "data", Value: bson.D{{Key: "failCommands", Value: bson.A{"abortTransaction"}}, {Key: "closeConnection", Value: true}, {Key: "appName", Value: t.Name()}}},
	}).Err(); err != nil {
		t.Fatal(err)
	}
	m, failed := onMongo(client.Database(db.Name())), errors.New("the first one fails")
	for _, want := range []error{failed, nil} {
		err := m.transaction(t.Context(), func(ctx context.Context) error {
			return errors.Join(m.insert(ctx, "c", []bson.Raw{testkit.FromJSON(`{"_id":1}`)}), want)
		})
		if !errors.Is(err, want) {
			t.Fatalf("the error is %v, want %v", err, want)
		}
	}
}

// If a context has a deadline, the driver retries until then without a pause. The
// engine's own attempts have pauses.
func TestFailingServerCausesNoRetryStorm(t *testing.T) {
	t.Parallel()
	trouble := bson.D{
		{Key: "ok", Value: 0}, {Key: "code", Value: 89}, {Key: "errmsg", Value: "a shard does not answer"},
		{Key: "errorLabels", Value: bson.A{"RetryableWriteError"}},
	}
	const most = 2 // the driver's own retry
	for name, do := range map[string]func(s testStore) error{
		"load": func(s testStore) error {
			states, err := s.Load(t.Context(), []model.Unit{keyOf("a")})
			if err == nil {
				err = states[0].Unavailable
			}
			return err
		},
		"write": func(s testStore) error {
			results, err := s.Write(t.Context(), []model.Write{{Unit: keyOf("a"), Kind: model.Update, From: 1, To: 2}})
			if err == nil {
				err = results[0].Err
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := mongotest.NewReplies(t, slices.Repeat([]bson.D{trouble}, 20)...)
			if err := do(newTestStore(t, onMongo(server.Client.Database("shop")))); err == nil {
				t.Error("got no error from a server that fails")
			}
			if n := server.Commands(); n > most {
				t.Errorf("asked %d times", n)
			}
		})
	}
}
