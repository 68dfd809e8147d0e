package mongotest

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// IndexEvents creates the index that an event store must have.
func IndexEvents(tb testing.TB, events *mongo.Collection) {
	tb.Helper()
	if _, err := events.Indexes().CreateOne(tb.Context(), mongo.IndexModel{ //nolint:forbidigo // nobody else uses the collection
		Keys: bson.D{{Key: "aggregateId", Value: 1}, {Key: "eventId", Value: 1}}, Options: options.Index().SetUnique(true),
	}); err != nil {
		tb.Fatal(err)
	}
}
