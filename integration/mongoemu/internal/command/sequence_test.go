package command_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/command"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/wire"
)

// A document sequence is only accepted for a field of the command that takes a list of
// documents.
func TestSequences(t *testing.T) {
	t.Parallel()
	doc := bsonraw.MustMarshal(bson.D{{Key: "_id", Value: 1}})
	for _, tt := range []struct {
		body bson.D
		name string
		code int64
	}{
		{bson.D{{Key: "insert", Value: "c"}}, "documents", 0},
		{bson.D{{Key: "insert", Value: "c"}}, "documentz", 40414},
		{bson.D{{Key: "insert", Value: "c"}, {Key: "documents", Value: bson.A{bson.D{}}}}, "documents", 40433},
		{bson.D{{Key: "insert", Value: "c"}, {Key: "documents", Value: bson.A{bson.D{}}}}, "updates", 40415},
		{bson.D{{Key: "find", Value: "c"}}, "documents", 40415},
		{bson.D{{Key: "find", Value: "c"}}, "filter", 14},
	} {
		reply := newEngine().Handle(t.Context(), t.Context(), &command.Conn{}, &wire.Message{
			Opcode: wire.OpMsg, Body: bsonraw.MustMarshal(append(tt.body, bson.E{Key: "$db", Value: "db"})),
			Sequences: []wire.Sequence{{Name: tt.name, Docs: [][]byte{doc}}},
		}, 0)
		code, _ := bsonraw.Lookup(reply.Body, "code")
		if n, _ := bsonraw.Int64(code); n != tt.code {
			t.Errorf("%v with %s: %v", tt.body, tt.name, bson.Raw(reply.Body))
		}
	}
}
