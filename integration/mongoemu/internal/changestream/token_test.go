package changestream

import (
	"bytes"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
)

// A resumed stream that has read nothing returns the token that it was resumed from, so
// encoding a parsed token must yield the same token.
func TestTokenRoundTrips(t *testing.T) {
	t.Parallel()
	key := bsonraw.NewBuilder(32).String("_id", "a").Bytes()
	for name, token := range map[string]Token{
		"watermark":    watermark(bson.Timestamp{T: 7, I: 3}),
		"event":        {TS: bson.Timestamp{T: 7, I: 3}, Event: true, Index: 2, UUID: [16]byte{1, 2}, Key: key},
		"without key":  {TS: bson.Timestamp{T: 7, I: 3}, Event: true},
		"invalidation": {TS: bson.Timestamp{T: 7, I: 3}, Event: true, Invalidate: true, Key: key},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			written := token.Document()
			read, err := ParseToken(bsonraw.Value{Type: bsoncore.TypeEmbeddedDocument, Data: written})
			if err != nil {
				t.Fatal(err)
			}
			if read.Compare(token) != 0 {
				t.Errorf("reads as %+v, was %+v", read, token)
			}
			if again := read.Document(); !bytes.Equal(again, written) {
				t.Errorf("is written as %x, was %x", again, written)
			}
		})
	}
}
