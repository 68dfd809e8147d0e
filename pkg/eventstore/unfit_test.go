package eventstore_test

import (
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
)

// TestUnusableIndexIsNamed: the server creates no second index on the same keys, so the remedy
// names the one that is there.
func TestUnusableIndexIsNamed(t *testing.T) {
	t.Parallel()
	for want, option := range map[string]bson.E{
		"unhideIndex": {Key: "hidden", Value: true},
		"dropIndex":   {Key: "sparse", Value: true},
		"partial":     {Key: "partialFilterExpression", Value: bson.D{}},
	} {
		_, events := newServer(t, reply("firstBatch", 0, indexID, append(index[:3:3], option)))
		if _, err := newReader(t, events).CheckIndex(t.Context()); !errors.Is(err, eventstore.ErrIndex) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "byAggregate") {
			t.Errorf("%s: %v", option.Key, err)
		}
	}
}

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
