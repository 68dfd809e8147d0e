package eventstore_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestTTLIndexIsFound(t *testing.T) {
	t.Parallel()
	ttl := bson.D{{Key: "v", Value: 2}, {Key: "key", Value: bson.D{{Key: "timestamp", Value: 1}}}, {Key: "name", Value: "old"}, {Key: "expireAfterSeconds", Value: 60}}
	_, events := newServer(t, reply("firstBatch", 0, indexID, index, ttl), reply("firstBatch", 0, indexID, index))
	r := newReader(t, events)
	for _, want := range []string{"old", ""} {
		if found, err := r.CheckIndex(t.Context()); found.TTL != want || err != nil {
			t.Errorf("found %q, %v, want %q", found.TTL, err, want)
		}
	}
}
