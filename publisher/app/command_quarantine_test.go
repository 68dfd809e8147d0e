package app

import (
	"context"
	"os"
	"runtime"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
)

// server is the MongoDB stand-in of this package's tests.
var server mongotest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

// The command often runs in the pod of a publisher. If it exceeds the memory limit, the
// kernel also kills the publisher. So it must not hold all events of the quarantine, which
// are often the large ones.
func TestChosenEventsAreNotHeldInMemory(t *testing.T) { //nolint:paralleltest // it measures the heap of the process
	const records, size = 48, 1 << 20
	db := server.Database(t)
	s := &stores{events: db.Collection("events"), state: db}
	var found []quarantine.Record
	for n := range int64(records) {
		id := bson.ObjectID{byte(n)}
		_, err := s.events.InsertOne(t.Context(), bson.D{
			{Key: "_id", Value: id}, {Key: "aggregateId", Value: "a"}, {Key: "eventId", Value: records - n}, {Key: "eventType", Value: "T"},
			{Key: "payload", Value: make([]byte, size)},
		})
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, quarantine.Record{DocumentID: testkit.Value(id)})
	}
	reader := event.NewReader(event.DefaultFields())
	before := heap()
	chosen, err := chooseRecords(t.Context(), s.events, reader, found)
	if err != nil || chosen.events != records || len(chosen.unsent) != 0 {
		t.Fatalf("%d events can be published, %d cannot: %v", chosen.events, len(chosen.unsent), err)
	}
	if grown := heap() - before; grown > records*size/4 {
		t.Errorf("%d bytes are held for %d events of %d bytes", grown, records, size)
	}
	next := int64(1)
	err = chosen.each(t.Context(), func(_ context.Context, ev event.Event, _ *quarantine.Record) error {
		if ev.EventID != next {
			t.Errorf("event %d comes instead of %d", ev.EventID, next)
		}
		next++
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// heap returns the bytes of live objects.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
