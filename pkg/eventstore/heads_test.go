package eventstore_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

func TestHeadsReadOnlyKeys(t *testing.T) {
	t.Parallel()
	s, events := newServer(t,
		reply("firstBatch", 0, indexID, index),
		reply("firstBatch", 9, eventOf("b", 2), eventOf("b", 3), eventOf("c", 1), eventOf("c", 2)),
		reply("nextBatch", 9, eventOf("c", 3)),
		reply("nextBatch", 0, eventOf("c", 5), bson.D{{Key: "aggregateId", Value: "c"}, {Key: "eventId", Value: "six"}}),
	)
	r := newReader(t, events)
	from := eventstore.Before(testkit.Value("b"))
	cursor, err := r.Heads(t.Context(), from, eventstore.Position{}, bson.Timestamp{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"find":"events","batchSize":4096,"filter":{},"hint":"byAggregate","min":{"aggregateId":"b","eventId":{"$minKey":1}},"projection":{"_id":0,"aggregateId":1,"eventId":1},"sort":{"aggregateId":1,"eventId":1},"readConcern":{"level":"majority"}}`
	if got := s.Command(t, 1); got != want {
		t.Errorf("asked by %s, want %s", got, want)
	}
	var heads []eventstore.Head
	for {
		page, err := cursor.Next(t.Context())
		if errors.Is(err, eventstore.ErrEnd) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, page...)
	}
	if len(heads) != 2 || heads[0].AggregateID != "b" || heads[0].First != 2 || heads[0].Last != 3 || heads[0].Events != 2 ||
		heads[1].AggregateID != "c" || heads[1].First != 1 || heads[1].Last != 5 || heads[1].Events != 4 {
		t.Errorf("heads %+v", heads)
	}
	if err := cursor.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestHeadsFailWithTheCursor checks that no aggregate is reported with a part of its
// events.
func TestHeadsFailWithTheCursor(t *testing.T) {
	t.Parallel()
	_, events := newServer(t,
		reply("firstBatch", 0, indexID, index),
		reply("firstBatch", 9, eventOf("b", 1)),
		bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 43}, {Key: "errmsg", Value: "cursor not found"}},
	)
	cursor, err := newReader(t, events).Heads(t.Context(), eventstore.Position{}, eventstore.Position{}, bson.Timestamp{})
	if err != nil {
		t.Fatal(err)
	}
	var heads []eventstore.Head
	for err == nil && len(heads) == 0 {
		heads, err = cursor.Next(t.Context())
	}
	if errors.Is(err, eventstore.ErrEnd) || len(heads) != 0 {
		t.Errorf("heads %v, %v", heads, err)
	}
	_ = cursor.Close(t.Context())
}

// Each call has a timeout of its own, so an aggregate of many batches must not need one long call.
func TestHeadsReadOneBatchACall(t *testing.T) {
	t.Parallel()
	replies := []bson.D{reply("firstBatch", 0, indexID, index), reply("firstBatch", 9, eventOf("a", 1))}
	for n := range int64(5) {
		replies = append(replies, reply("nextBatch", 9, eventOf("a", n+2)))
	}
	s, events := newServer(t, append(replies, reply("nextBatch", 0))...)
	cursor, err := newReader(t, events).Heads(t.Context(), eventstore.Position{}, eventstore.Position{}, bson.Timestamp{})
	if err != nil {
		t.Fatal(err)
	}
	var heads []eventstore.Head
	for {
		before := s.Commands()
		page, err := cursor.Next(t.Context())
		if errors.Is(err, eventstore.ErrEnd) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := s.Commands() - before; n > 1 {
			t.Errorf("a call made %d requests", n)
		}
		heads = append(heads, page...)
	}
	if len(heads) != 1 || heads[0].First != 1 || heads[0].Last != 6 || heads[0].Events != 6 {
		t.Errorf("heads %+v", heads)
	}
}
