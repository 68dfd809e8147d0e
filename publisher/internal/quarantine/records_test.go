package quarantine_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
)

func TestDocumentTextHasTheFormOfTheCommandLine(t *testing.T) {
	t.Parallel()
	oid, err := bson.ObjectIDFromHex("65a0b1c2d3e4f5a6b7c8d9e0")
	if err != nil {
		t.Fatal(err)
	}
	for want, v := range map[string]any{
		"e-1":                        "e-1",
		"65a0b1c2d3e4f5a6b7c8d9e0":   oid,
		`{"$numberInt":"7"}`:         int32(7),
		`{"a": {"$numberLong":"1"}}`: bson.D{{Key: "a", Value: int64(1)}},
	} {
		if got := quarantine.DocumentText(bsontest.Value(v)); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}
