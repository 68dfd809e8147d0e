package eventstore_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

func TestDocumentsHaveTheOrderAndTheTypesOfTheirKeys(t *testing.T) {
	t.Parallel()
	key := func(aggregate any, id int64) eventstore.Key {
		return eventstore.Key{AggregateID: testkit.Value(aggregate), EventID: id}
	}
	// A collection that ignores case returns the event of A, too.
	s, collection := newServer(t, reply("firstBatch", 0, stored("a", 2), stored("A", 1), stored("a", 1), stored(int32(42), 7)))
	found, err := newReader(t, collection).Documents(t.Context(),
		[]eventstore.Key{key("a", 1), key("a", 2), key("a", 3), key(int32(42), 7), key("42", 7), key("a", 1)}, bson.Timestamp{T: 5, I: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{1, 2, 0, 7, 0, 1} {
		got := int64(0)
		if found[i] != nil {
			got = found[i].Lookup("eventId").Int64()
		}
		if got != want || got == 1 && found[i].Lookup("aggregateId").StringValue() != "a" {
			t.Errorf("document %d is %v, want event %d", i, found[i], want)
		}
	}
	want := `{"find":"events","filter":{"$or":[{"aggregateId":"a","eventId":{"$in":[1,2,3]}},{"aggregateId":42,"eventId":{"$in":[7]}},{"aggregateId":"42","eventId":{"$in":[7]}},{"aggregateId":"a","eventId":{"$in":[1]}}]},"readConcern":{"level":"majority","afterClusterTime":{"$timestamp":{"t":5,"i":1}}}}`
	if got := s.Command(t, 0); got != want {
		t.Errorf("asked by %s, want %s", got, want)
	}
}
