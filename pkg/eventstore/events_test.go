package eventstore_test

import (
	"errors"
	"testing"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

// newServer starts a server that returns these replies, and connects the driver to it.
// The replies have the form of replies recorded from a real replica set.
func newServer(t *testing.T, replies ...bson.D) (*mongotest.Replies, *mongo.Collection) {
	t.Helper()
	s := mongotest.NewReplies(t, replies...)
	return s, s.Client.Database("shop").Collection("events")
}

// newReader makes a reader of that collection with the default field names.
func newReader(t *testing.T, events *mongo.Collection) *eventstore.Reader {
	t.Helper()
	r := eventstore.NewReader(events, event.DefaultFields(), zerolog.Nop())
	r.Only(event.IDString)
	return r
}

func reply(batch string, id int64, documents ...any) bson.D {
	return bson.D{
		{Key: "ok", Value: 1},
		{Key: "cursor", Value: bson.D{
			{Key: "id", Value: id},
			{Key: "ns", Value: "shop.events"},
			{Key: batch, Value: append(bson.A{}, documents...)},
		}},
		{Key: "operationTime", Value: bson.Timestamp{T: 77, I: 3}},
	}
}

func eventOf(aggregate any, number int64) bson.D {
	return bson.D{{Key: "aggregateId", Value: aggregate}, {Key: "eventId", Value: number}}
}

var (
	indexID = bson.D{{Key: "v", Value: 2}, {Key: "key", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "name", Value: "_id_"}}
	index   = bson.D{{Key: "v", Value: 2}, {Key: "key", Value: bson.D{{Key: "aggregateId", Value: 1}, {Key: "eventId", Value: 1}}}, {Key: "name", Value: "byAggregate"}}
)

func TestOperationTimeIsReadFromTheMajority(t *testing.T) {
	t.Parallel()
	s, events := newServer(t, reply("firstBatch", 0), bson.D{{Key: "ok", Value: 1}, {Key: "cursor", Value: bson.D{{Key: "id", Value: int64(0)}, {Key: "ns", Value: "shop.events"}, {Key: "firstBatch", Value: bson.A{}}}}})
	source := newReader(t, events)
	at, err := source.OperationTime(t.Context())
	if err != nil || at != (bson.Timestamp{T: 77, I: 3}) {
		t.Errorf("%v: %v", at, err)
	}
	want := `{"find":"events","filter":{},"limit":1,"projection":{"_id":1},"singleBatch":true,"readConcern":{"level":"majority"}}`
	if got := s.Command(t, 0); got != want {
		t.Errorf("asked by %s, want %s", got, want)
	}
	if _, err := source.OperationTime(t.Context()); !errors.Is(err, eventstore.ErrNoOperationTime) {
		t.Errorf("a server without operation times: %v", err)
	}
}

func TestScanReadsTheIndexFromAPosition(t *testing.T) {
	t.Parallel()
	s, events := newServer(t,
		reply("firstBatch", 0, indexID, index),
		reply("firstBatch", 9, eventOf("b", 4), eventOf("b", 5)),
		reply("nextBatch", 0, eventOf("c", 1)),
		reply("firstBatch", 0),
	)
	source := newReader(t, events)
	from, ok := source.Position(testkit.Raw(eventOf("b", 4)))
	if !ok {
		t.Fatal("no position")
	}
	cursor, err := source.Open(t.Context(), from, eventstore.Position{}, bson.Timestamp{T: 70, I: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{2, 1} {
		page, err := cursor.Next(t.Context())
		if err != nil || len(page) != want {
			t.Fatalf("page of %d, want %d: %v", len(page), want, err)
		}
	}
	if _, err := cursor.Next(t.Context()); !errors.Is(err, eventstore.ErrEnd) {
		t.Errorf("ended with %v", err)
	}
	if err := cursor.Close(t.Context()); err != nil {
		t.Error(err)
	}
	want := `{"find":"events","batchSize":4096,"filter":{},"hint":"byAggregate","min":{"aggregateId":"b","eventId":4},` +
		`"sort":{"aggregateId":1,"eventId":1},"readConcern":{"level":"majority","afterClusterTime":{"$timestamp":{"t":70,"i":1}}}}`
	if got := s.Command(t, 1); got != want {
		t.Errorf("scanned by\n%s, want\n%s", got, want)
	}
}

func TestMissingIndexIsRefused(t *testing.T) {
	t.Parallel()
	nothing := bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 26}, {Key: "codeName", Value: "NamespaceNotFound"}, {Key: "errmsg", Value: "ns does not exist: shop.events"}}
	_, events := newServer(t, reply("firstBatch", 0, indexID), nothing, nothing)
	source := newReader(t, events)
	found, err := source.CheckIndex(t.Context())
	if !found.Exists || !errors.Is(err, eventstore.ErrIndex) {
		t.Errorf("found %+v, %v", found, err)
	}
	want := `event store lacks the index that a scan needs: create it with db.getSiblingDB("shop").getCollection("events").createIndex({"aggregateId": 1, "eventId": 1}, {unique: true}), or without unique if the collection is sharded by a key that this index does not begin with; if an index with these keys is hidden, unhide it, and if it is sparse or partial, drop it first`
	if err != nil && err.Error() != want {
		t.Errorf("says %q", err)
	}
	if found, err := source.CheckIndex(t.Context()); found.Exists || err != nil {
		t.Errorf("a collection that does not exist: %+v, %v", found, err)
	}
	if cursor, err := source.Open(t.Context(), eventstore.Position{}, eventstore.Position{}, bson.Timestamp{T: 1}); cursor != nil || err != nil {
		t.Errorf("a collection that does not exist: %v, %v", cursor, err)
	}
}
