package changestream

import (
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
)

var operationNames = map[oplog.Kind]string{
	oplog.Insert: "insert", oplog.Update: "update", oplog.Replace: "replace", oplog.Delete: "delete",
	oplog.Drop: "drop", oplog.Rename: "rename", oplog.DropDatabase: "dropDatabase",
}

const invalidateName = "invalidate"

// tokenOf returns the token of an entry's event, or of the invalidation after it.
func tokenOf(e *oplog.Entry, invalidate bool) Token {
	return Token{TS: e.TS, Event: true, Index: e.Index, Invalidate: invalidate, UUID: e.UUID, Key: e.Key}
}

// build returns the change event of an entry. full is the document that the stream looked
// up for an update, or absent.
func build(e *oplog.Entry, token []byte, full bsonraw.Value) []byte {
	b := bsonraw.NewBuilder(len(e.Doc) + len(e.Key) + len(e.Description) + len(token) + len(full.Data) + 256)
	if e.Txn != nil {
		b.Int64("txnNumber", e.Txn.Number).Document("lsid", e.Txn.Session)
	}
	b.Document("_id", token).String("operationType", operationNames[e.Kind]).Timestamp("clusterTime", e.TS)
	wallTime(b, e)
	if e.Doc != nil {
		b.Document("fullDocument", e.Doc)
	}
	b.Start("ns").String("db", e.DB)
	if e.Coll != "" {
		b.String("coll", e.Coll)
	}
	b.End()
	if e.Kind == oplog.Rename {
		b.Start("to").String("db", e.ToDB).String("coll", e.ToColl).End()
	}
	if e.Key != nil {
		b.Document("documentKey", e.Key)
	}
	if e.Description != nil {
		b.Document("updateDescription", e.Description)
	}
	b.Value("fullDocument", full)
	return b.Bytes()
}

func buildInvalidate(e *oplog.Entry, token []byte) []byte {
	b := bsonraw.NewBuilder(len(token) + 128)
	b.Document("_id", token).String("operationType", invalidateName).Timestamp("clusterTime", e.TS)
	wallTime(b, e)
	return b.Bytes()
}

func wallTime(b *bsonraw.Builder, e *oplog.Entry) {
	b.Value("wallTime", bsonraw.Value{Type: bsoncore.TypeDateTime, Data: bsoncore.AppendDateTime(nil, e.Wall)})
}
