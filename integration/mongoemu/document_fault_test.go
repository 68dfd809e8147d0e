package mongoemu_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// The writes of chosen documents fail, each with its own error, and the other writes of the
// same command are carried out.
func TestWritesOfChosenDocumentsFail(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{})
	c := client.Database("db").Collection("models")
	unordered := options.BulkWrite().SetOrdered(false)
	write := func() []int {
		t.Helper()
		_, err := c.BulkWrite(t.Context(), []mongo.WriteModel{
			mongo.NewInsertOneModel().SetDocument(bson.D{{Key: "_id", Value: bson.NewObjectID()}}),
			mongo.NewUpdateOneModel().SetFilter(bson.D{{Key: "_id", Value: "a"}}).SetUpdate(bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}).SetUpsert(true),
			mongo.NewUpdateOneModel().SetFilter(bson.D{{Key: "_id", Value: "b"}}).SetUpdate(bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}).SetUpsert(true),
		}, unordered)
		var bulk mongo.BulkWriteException
		if err != nil && !errors.As(err, &bulk) {
			t.Fatal(err)
		}
		var failed []int
		for _, e := range bulk.WriteErrors {
			if e.Code != 6 {
				t.Errorf("error %v", e)
			}
			failed = append(failed, e.Index)
		}
		return failed
	}
	s.FailDocuments(mongoemu.DocumentFault{Collection: "models", IDs: []string{"a"}, Code: 6})
	if failed := write(); len(failed) != 1 || failed[0] != 1 {
		t.Errorf("operations %v failed, want the second", failed)
	}
	if n, err := c.CountDocuments(t.Context(), bson.D{}); err != nil || n != 2 {
		t.Errorf("%d documents, %v; want the other two", n, err)
	}
	if _, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "a"}}); err == nil {
		t.Error("an insert of the document did not fail")
	}
	if _, err := client.Database("db").Collection("others").InsertOne(t.Context(), bson.D{{Key: "_id", Value: "a"}}); err != nil {
		t.Errorf("another collection: %v", err)
	}
	s.FailDocuments(mongoemu.DocumentFault{Collection: "models", IDs: []string{"b"}, Code: 6, Reads: true})
	for id, fails := range map[any]bool{"a": false, "b": true} {
		for _, by := range []any{id, bson.D{{Key: "$in", Value: bson.A{id}}}} {
			if err := c.FindOne(t.Context(), bson.D{{Key: "_id", Value: by}}).Err(); mongo.IsNetworkError(err) || fails != (err != nil && !errors.Is(err, mongo.ErrNoDocuments)) {
				t.Errorf("the read of %v: %v", by, err)
			}
		}
	}
	s.ClearFaults()
	if failed := write(); len(failed) > 0 {
		t.Errorf("operations %v failed after the faults had ended", failed)
	}
}
