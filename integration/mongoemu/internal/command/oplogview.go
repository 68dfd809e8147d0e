package command

import (
	"slices"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// oplogNamespace is the collection in which clients can read the oplog, for example to
// find its oldest entry.
var oplogNamespace = store.Namespace{DB: "local", Coll: "oplog.rs"}

var oplogOps = map[oplog.Kind]string{
	oplog.Insert: "i", oplog.Update: "u", oplog.Replace: "u", oplog.Delete: "d",
	oplog.Drop: "c", oplog.Rename: "c", oplog.DropDatabase: "c", oplog.Noop: "n",
}

// openOplog queries the oplog's entries as documents with their times, kinds, namespaces
// and changed documents. It only supports natural order.
func (e *Engine) openOplog(q store.Query) (source, error) {
	if q.Order != nil || q.Hint.Name != "" || q.Hint.Pattern != nil {
		return nil, mongoerr.Lacking("an order other than $natural on %s", oplogNamespace)
	}
	entries := e.Store.Log().All()
	if q.Natural < 0 || q.Hint.Natural < 0 {
		slices.Reverse(entries)
	}
	return filtered(func(yield func([]byte) bool) {
		for _, entry := range entries {
			if !yield(oplogDocument(entry)) {
				return
			}
		}
	}, q)
}

func oplogDocument(e *oplog.Entry) []byte {
	b := bsonraw.NewBuilder(len(e.Doc)+128).String("op", oplogOps[e.Kind])
	ns := e.DB
	if e.Coll != "" {
		ns += "." + e.Coll
	}
	b.String("ns", ns)
	switch {
	case e.Doc != nil:
		b.Document("o", e.Doc)
	case e.Kind == oplog.Delete:
		b.Document("o", e.Key)
	case e.Kind == oplog.Noop:
		b.Start("o").String("msg", e.Message).End()
	default:
		b.Start("o").End()
	}
	if e.Kind == oplog.Update || e.Kind == oplog.Replace {
		b.Document("o2", e.Key)
	}
	b.Timestamp("ts", e.TS).Int64("t", term).Int64("v", 2)
	b.Value("wall", bsonraw.DateValue(e.Wall))
	return b.Bytes()
}
