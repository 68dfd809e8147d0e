package eventstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongoxtest"
	"github.com/penstock-cdc/penstock/projector/internal/eventstore"
)

// collection answers with what it is given and keeps what it was asked.
type collection struct {
	documents []any
	err       error
	filter    bson.Raw
	options   options.FindOptions
}

func (c *collection) Find(_ context.Context, filter any, opts ...options.Lister[options.FindOptions]) (*mongo.Cursor, error) {
	if c.err != nil {
		return nil, c.err
	}
	raw, err := bson.Marshal(filter)
	if err != nil {
		return nil, err
	}
	c.filter = raw
	for _, o := range opts {
		for _, set := range o.List() {
			if err := set(&c.options); err != nil {
				return nil, err
			}
		}
	}
	return mongo.NewCursorFromDocuments(c.documents, nil, nil)
}

func stored(aggregate any, id int64) bson.D {
	return bson.D{{Key: "aggregateId", Value: aggregate}, {Key: "eventId", Value: id}, {Key: "eventType", Value: "Happened"}, {Key: "payload", Value: bson.D{{Key: "n", Value: id}}}}
}

func read(t *testing.T, document bson.D) *event.Event {
	t.Helper()
	raw, err := bson.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	r, err := event.NewReader(event.DefaultFields())
	if err != nil {
		t.Fatal(err)
	}
	ev, err := r.Read(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &ev
}

func reader(t *testing.T, c *collection) *eventstore.Reader {
	t.Helper()
	r, err := eventstore.NewReader(c, event.DefaultFields(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMissingAsksForTheSourceType(t *testing.T) {
	t.Parallel()
	id := bson.NewObjectID()
	c := &collection{documents: []any{stored(id, 3), stored(id, 4)}}
	events, err := reader(t, c).Missing(t.Context(), read(t, stored(id, 5)), 3, 4, 500)
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 2 || events[0].EventID != 3 || events[1].EventID != 4 {
		t.Errorf("read %v", events)
	}
	if n := events[1].Payload.Document().Lookup("n").Int64(); n != 4 {
		t.Errorf("the second payload holds %d", n)
	}
	want := `{"aggregateId": {"$oid":"` + id.Hex() + `"},"eventId": {"$gte": {"$numberLong":"3"},"$lte": {"$numberLong":"4"}}}`
	if got := c.filter.String(); got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
	if *c.options.Limit != 500 {
		t.Errorf("limit %d", *c.options.Limit)
	}
}

func TestMissingStopsBeforeAnEventThatBreaksTheContract(t *testing.T) {
	t.Parallel()
	c := &collection{documents: []any{stored("a", 1), bson.D{{Key: "aggregateId", Value: "a"}, {Key: "eventId", Value: 2}}, stored("a", 3)}}
	events, err := reader(t, c).Missing(t.Context(), read(t, stored("a", 4)), 1, 3, 500)
	if err != nil || len(events) != 1 {
		t.Errorf("read %d events, %v", len(events), err)
	}
}

func TestMissingIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	c := &collection{}
	for id := range int64(8) {
		c.documents = append(c.documents, append(stored("a", id+1), bson.E{Key: "metadata", Value: strings.Repeat("x", 4<<20)}))
	}
	events, err := reader(t, c).Missing(t.Context(), read(t, stored("a", 9)), 1, 8, 500)
	if err != nil || len(events) != 4 {
		t.Errorf("read %d events, %v", len(events), err)
	}
}

func TestWhole(t *testing.T) {
	t.Parallel()
	c := &collection{documents: []any{stored("a", 7)}}
	ev, err := reader(t, c).Whole(t.Context(), read(t, stored("a", 7)[:3]))
	if err != nil || ev.Payload.Type != bson.TypeEmbeddedDocument {
		t.Errorf("read %v, %v", ev, err)
	}
	c.documents = nil
	if _, err := reader(t, c).Whole(t.Context(), ev); !errors.Is(err, eventstore.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	c.err = errors.New("no primary")
	if _, err := reader(t, c).Whole(t.Context(), ev); !errors.Is(err, c.err) {
		t.Errorf("error %v", err)
	}
}

// A server that has stopped answering does not keep the reader that wants to close
// its cursor.
func TestMissingDoesNotWaitForTheCursorToClose(t *testing.T) {
	t.Parallel()
	broken := bson.D{{Key: "aggregateId", Value: "a"}, {Key: "eventId", Value: 2}}
	server := mongoxtest.NewServer(t, bson.D{{Key: "ok", Value: 1}, {Key: "cursor", Value: bson.D{
		{Key: "id", Value: int64(7)}, {Key: "ns", Value: "shop.events"}, {Key: "firstBatch", Value: bson.A{stored("a", 1), broken}},
	}}}, bson.D{{Key: "ok", Value: 1}})
	server.Ignore("killCursors")
	r, err := eventstore.NewReader(server.Client.Database("shop").Collection("events"), event.DefaultFields(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
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
	c := &collection{documents: []any{
		append(stored("a", 1), bson.E{Key: "_id", Value: int64(1)}),
		bson.D{{Key: "_id", Value: int64(2)}, {Key: "note", Value: "no event"}},
	}}
	var visited []string
	broken, err := reader(t, c).Sample(t.Context(), 2, func(ev *event.Event) { visited = append(visited, ev.AggregateID) })
	if err != nil {
		t.Fatal(err)
	}
	// The fake answers twice alike: the oldest, and the newest after these.
	if broken != 2 || len(visited) != 2 {
		t.Errorf("visited %v, %d broken", visited, broken)
	}
	if from, ok := c.filter.Lookup("_id", "$gt").AsInt64OK(); !ok || from != 2 || *c.options.Limit != 2 {
		t.Errorf("asked %s, limit %d", c.filter, *c.options.Limit)
	}
}
