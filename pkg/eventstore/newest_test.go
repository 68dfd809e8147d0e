package eventstore_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
)

func TestNewestIsTheNewestReadableEvent(t *testing.T) {
	t.Parallel()
	values := func(ids ...any) bson.D {
		return bson.D{{Key: "ok", Value: 1}, {Key: "values", Value: append(bson.A{}, ids...)}}
	}
	broken := bson.D{{Key: "aggregateId", Value: "user-1"}, {Key: "eventId", Value: 10.5}}
	for name, test := range map[string]struct {
		id      string
		replies []bson.D
		newest  int64
	}{
		"text":                            {"user-1", []bson.D{values("user-1"), reply("firstBatch", 0, stored("user-1", 9))}, 9},
		"number":                          {"17", []bson.D{values(int64(17)), reply("firstBatch", 0, stored(int64(17), 5))}, 5},
		"unknown":                         {"unknown", []bson.D{values()}, 0},
		"after one without a valid id":    {"user-1", []bson.D{values("user-1"), reply("firstBatch", 0, broken, stored("user-1", 9))}, 9},
		"after one that a collation adds": {"user-1", []bson.D{values("user-1"), reply("firstBatch", 0, stored("USER-1", 12), stored("user-1", 9))}, 9},
		"none is readable":                {"user-1", []bson.D{values("user-1"), reply("firstBatch", 0, broken)}, 0},
	} {
		s, collection := newServer(t, test.replies...)
		r := newReader(t, collection)
		if name == "number" {
			r.Only(event.IDInteger)
		}
		newest, err := r.Newest(t.Context(), test.id)
		if err != nil || newest != test.newest {
			t.Errorf("%s: newest event %d, want %d; %v", name, newest, test.newest, err)
		}
		if name != "text" {
			continue
		}
		want := `{"find":"events","batchSize":1,"filter":{"aggregateId":"user-1","eventId":{"$gte":-9223372036854775808,"$lte":9223372036854775807,"$not":{"$type":"array"}}},"projection":{"_id":0,"aggregateId":1,"eventId":1},"sort":{"eventId":-1},"readConcern":{"level":"majority"}}`
		if got := s.Command(t, 1); got != want {
			t.Errorf("asked by\n%s, want\n%s", got, want)
		}
	}
}
