package eventstore_test

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// counted is the reply to a count.
func counted(n int64) bson.D { return bson.D{{Key: "ok", Value: 1}, {Key: "n", Value: n}} }

func TestSplitOfALargeStoreReadsASample(t *testing.T) {
	t.Parallel()
	s, events := newServer(t,
		reply("firstBatch", 0, indexID, index),
		counted(1_000_000_000),
		reply("firstBatch", 0, eventOf("a", 1), eventOf("b", 1), eventOf("b", 2), eventOf("c", 1)),
	)
	boundaries, err := newReader(t, events).Split(t.Context(), 4)
	if err != nil || len(boundaries) != 2 || boundaries[0].AggregateID.StringValue() != "b" || boundaries[1].AggregateID.StringValue() != "c" {
		t.Errorf("boundaries %v, %v", boundaries, err)
	}
	want := `"pipeline":[{"$sample":{"size":256}},{"$project":{"_id":0,"aggregateId":1,"eventId":1}},{"$sort":{"aggregateId":1,"eventId":1}}]`
	if got := s.Command(t, 2); !strings.Contains(got, want) {
		t.Errorf("asked by %s, want %s", got, want)
	}
}

// TestSplitReadsAllKeysIfTheSampleFails: the server's random cursor can fail on a collection.
func TestSplitReadsAllKeysIfTheSampleFails(t *testing.T) {
	t.Parallel()
	s, events := newServer(t,
		reply("firstBatch", 0, indexID, index),
		counted(1_000_000_000),
		bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 28799}, {Key: "errmsg", Value: "$sample stage could not find a non-duplicate document"}},
		reply("firstBatch", 0, eventOf("a", 1), eventOf("b", 1)),
	)
	boundaries, err := newReader(t, events).Split(t.Context(), 2)
	if err != nil || len(boundaries) != 1 || boundaries[0].AggregateID.StringValue() != "b" {
		t.Errorf("boundaries %v, %v", boundaries, err)
	}
	want := `"pipeline":[{"$project":{"_id":0,"aggregateId":1,"eventId":1}},{"$sample":{"size":128}},{"$sort":{"aggregateId":1,"eventId":1}}]`
	if got := s.Command(t, 3); !strings.Contains(got, want) || !strings.Contains(got, `"hint":"byAggregate"`) {
		t.Errorf("asked by %s", got)
	}
}
