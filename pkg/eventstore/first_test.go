package eventstore_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

func TestFirstIsTheFirstReadableEvent(t *testing.T) {
	t.Parallel()
	broken := bson.D{{Key: "aggregateId", Value: "user-1"}, {Key: "eventId", Value: 3}}
	for name, test := range map[string]struct {
		reply bson.D
		first int64
	}{
		"the first":                       {reply("firstBatch", 0, stored("user-1", 4), stored("user-1", 5)), 4},
		"after one that cannot be read":   {reply("firstBatch", 0, broken, stored("user-1", 5)), 5},
		"after one that a collation adds": {reply("firstBatch", 0, stored("USER-1", 1), stored("user-1", 5)), 5},
		"none":                            {reply("firstBatch", 0), 0},
	} {
		s, collection := newServer(t, test.reply)
		first, err := newReader(t, collection).First(t.Context(), &event.Event{Keys: event.Keys{AggregateID: "user-1"}, RawAggregateID: testkit.Value("user-1")})
		if err != nil || (first == nil) != (test.first == 0) || first != nil && first.EventID != test.first {
			t.Errorf("%s: first event %+v, want %d; %v", name, first, test.first, err)
		}
		want := `{"find":"events","batchSize":1,"filter":{"aggregateId":"user-1","eventId":{"$gte":1,"$lte":9223372036854775807,"$not":{"$type":"array"}}},"sort":{"eventId":1},"readConcern":{"level":"majority"}}`
		if got := s.Command(t, 0); got != want {
			t.Errorf("asked by\n%s, want\n%s", got, want)
		}
	}
}
