package eventstore_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// TestIDsHaveTheTypeOfTheOldestEvent has an oldest event without a readable id.
func TestIDsHaveTheTypeOfTheOldestEvent(t *testing.T) {
	t.Parallel()
	_, events := newServer(t, reply("firstBatch", 0, bson.D{{Key: "eventId", Value: 1}}, eventOf(int32(42), 1), eventOf("42", 1)))
	r := newReader(t, events)
	r.Only("")
	if kind, err := r.LearnIDs(t.Context()); kind != event.IDInteger || err != nil {
		t.Fatalf("learned %s, %v", kind, err)
	}
	for id, want := range map[any]bool{int64(7): true, 8.0: true, "42": false, bson.NewObjectID(): false} {
		document, err := bson.Marshal(append(eventOf(id, 1), bson.E{Key: "eventType", Value: "T"}))
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Read(document)
		broken, ok := errors.AsType[*event.ContractError](err)
		if want && err != nil || !want && (!ok || broken.Reason != event.ReasonWrongType || broken.Field != "aggregateId") {
			t.Errorf("%v: %v", id, err)
		}
	}
}
