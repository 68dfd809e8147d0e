package eventstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

func stored(aggregate any, id int64) bson.D {
	return bson.D{{Key: "aggregateId", Value: aggregate}, {Key: "eventId", Value: id}, {Key: "eventType", Value: "Happened"}, {Key: "payload", Value: bson.D{{Key: "n", Value: id}}}}
}

func read(t *testing.T, document bson.D) *event.Event {
	t.Helper()
	ev, err := testkit.EventReader().Read(testkit.Raw(document))
	if err != nil {
		t.Fatal(err)
	}
	return &ev
}

func TestMissingQueriesTheTypeOfTheSource(t *testing.T) {
	t.Parallel()
	id := bson.NewObjectID()
	s, collection := newServer(t, reply("firstBatch", 0, stored(id, 3), stored(id, 4)))
	r := newReader(t, collection)
	r.Only(event.IDObjectID)
	events, err := r.Missing(t.Context(), read(t, stored(id, 5)), 3, 4, 500)
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 2 || events[0].EventID != 3 || events[1].EventID != 4 {
		t.Errorf("read %v", events)
	}
	if n := events[1].Payload.Document().Lookup("n").Int64(); n != 4 {
		t.Errorf("the second payload holds %d", n)
	}
	want := `{"find":"events","batchSize":501,"filter":{"aggregateId":{"$oid":"` + id.Hex() + `"},"eventId":{"$gte":3,"$lte":4,"$not":{"$type":"array"}}},"sort":{"eventId":1},"readConcern":{"level":"majority"}}`
	if got := s.Command(t, 0); got != want {
		t.Errorf("asked by %s, want %s", got, want)
	}
}

// TestMissingLeavesOutOtherAggregates: a collation of the collection takes a and A as equal.
func TestMissingLeavesOutOtherAggregates(t *testing.T) {
	t.Parallel()
	_, collection := newServer(t, reply("firstBatch", 0, stored("A", 1), stored("a", 1), stored("A", 2), stored("a", 2)))
	events, err := newReader(t, collection).Missing(t.Context(), read(t, stored("a", 3)), 1, 2, 500)
	if err != nil || len(events) != 2 || events[0].AggregateID != "a" || events[1].AggregateID != "a" {
		t.Errorf("read %v, %v", events, err)
	}
}

func TestMissingStopsBeforeAnEventThatBreaksTheContract(t *testing.T) {
	t.Parallel()
	_, collection := newServer(t, reply("firstBatch", 0, stored("a", 1), bson.D{{Key: "aggregateId", Value: "a"}, {Key: "eventId", Value: 2}}, stored("a", 3)))
	events, err := newReader(t, collection).Missing(t.Context(), read(t, stored("a", 4)), 1, 3, 500)
	if err != nil || len(events) != 1 {
		t.Errorf("read %d events, %v", len(events), err)
	}
}

func TestMissingIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	var documents []any
	for id := range int64(8) {
		documents = append(documents, append(stored("a", id+1), bson.E{Key: "metadata", Value: strings.Repeat("x", 4<<20)}))
	}
	_, collection := newServer(t, reply("firstBatch", 0, documents...))
	events, err := newReader(t, collection).Missing(t.Context(), read(t, stored("a", 9)), 1, 8, 500)
	if err != nil || len(events) != 4 {
		t.Errorf("read %d events, %v", len(events), err)
	}
}

func TestWholeReadsTheEventOfAClaimCheck(t *testing.T) {
	t.Parallel()
	_, collection := newServer(t,
		reply("firstBatch", 0, stored("A", 7), stored("a", 7)), // as with a collation
		reply("firstBatch", 0),
		bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 2}, {Key: "errmsg", Value: "refused"}},
	)
	r := newReader(t, collection)
	ev, err := r.Whole(t.Context(), read(t, stored("a", 7)[:3]))
	if err != nil || ev.Payload.Type != bson.TypeEmbeddedDocument {
		t.Errorf("read %v, %v", ev, err)
	}
	if _, err := r.Whole(t.Context(), ev); !errors.Is(err, eventstore.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	if _, err := r.Whole(t.Context(), ev); err == nil || errors.Is(err, eventstore.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}

// If a server has stopped answering, closing the cursor does not delay the reader.
func TestMissingDoesNotWaitForTheCursorToClose(t *testing.T) {
	t.Parallel()
	broken := bson.D{{Key: "aggregateId", Value: "a"}, {Key: "eventId", Value: 2}}
	server, collection := newServer(t, reply("firstBatch", 7, stored("a", 1), broken), bson.D{{Key: "ok", Value: 1}})
	server.Ignore("killCursors")
	r := newReader(t, collection)
	ev := read(t, stored("a", 3))
	done := make(chan error, 1)
	go func() {
		events, err := r.Missing(t.Context(), ev, 1, 2, 500)
		if err == nil && len(events) != 1 {
			err = errors.New("the first event is missing")
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("still waiting after a minute")
	}
	if command := server.Command(t, 1); !strings.Contains(command, "killCursors") {
		t.Errorf("the cursor was left open: %s", command)
	}
}

func TestSampleVisitsValidEvents(t *testing.T) {
	t.Parallel()
	batch := reply("firstBatch", 0,
		append(stored("a", 1), bson.E{Key: "_id", Value: int64(1)}),
		bson.D{{Key: "_id", Value: int64(2)}, {Key: "note", Value: "no event"}},
	)
	s, collection := newServer(t, batch, batch)
	var visited []string
	err := newReader(t, collection).Sample(t.Context(), 2, func(ev *event.Event, broken error) {
		visited = append(visited, fmt.Sprint(ev.AggregateID, broken != nil))
	})
	if want := []string{"afalse", "true", "afalse", "true"}; err != nil || !slices.Equal(visited, want) {
		t.Errorf("visited %q, %v", visited, err)
	}
	want := `{"find":"events","filter":{"_id":{"$gt":2}},"limit":2,"sort":{"_id":-1},"readConcern":{"level":"majority"}}`
	if got := s.Command(t, 1); got != want {
		t.Errorf("the newest are asked for by %s, want %s", got, want)
	}
}
