package command

import (
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// batch is the state of a write command: its statements' ids, what they did and
// which failed.
type batch struct {
	ordered bool
	ids     []int32 // statement ids, nil for 0, 1, 2 …
	first   int32
	retried []int32
	failed  []failure
	n       int32
}

type failure struct {
	index int
	err   *mongoerr.Error
}

// option reads the options that all write commands share.
func (w *batch) option(r *Request, key string, v bsonraw.Value) (known bool, err error) {
	switch key {
	case "ordered":
		w.ordered = bsonraw.Truthy(v)
	case "bypassDocumentValidation":
	case "let":
		err = mongoerr.Lacking("the %s option %q", r.Name, key)
	case "maxTimeMS":
	default:
		return false, nil
	}
	return true, err
}

// newBatch checks the number of statements and reads their ids.
func newBatch(r *Request, count int) (*batch, error) {
	w := &batch{ordered: true}
	if count < 1 || count > maxWriteBatch {
		return nil, mongoerr.New(mongoerr.InvalidLength, "Write batch sizes must be between 1 and %d. Got %d operations.", maxWriteBatch, count)
	}
	if v, ok := bsonraw.Lookup(r.Body, "stmtId"); ok {
		n, ok := bsonraw.Int64(v)
		if !ok {
			return nil, wrongType(r.Name, "stmtId", v, "int")
		}
		w.first = int32(n)
	}
	if v, ok := bsonraw.Lookup(r.Body, "stmtIds"); ok {
		if v.Type != bsoncore.TypeArray {
			return nil, wrongType(r.Name, "stmtIds", v, "array")
		}
		for _, e := range bsonraw.Elements(v.Data) {
			n, _ := bsonraw.Int64(e)
			w.ids = append(w.ids, int32(n))
		}
		if len(w.ids) != count {
			return nil, mongoerr.New(mongoerr.InvalidLength, "Number of statement ids must match the number of batch entries. Got %d statement ids but %d operations.", len(w.ids), count)
		}
	}
	return w, nil
}

func (w *batch) id(i int) int32 {
	if w.ids != nil {
		return w.ids[i]
	}
	return w.first + int32(i)
}

// fail notes a statement's error and reports whether the batch stops. An error
// that is the whole command's is given back. A write error aborts the
// transaction that it happens in.
func (w *batch) fail(r *Request, i int, err error) (stop bool, fatal error) {
	if stop, fatal = w.note(r, i, err); fatal == nil {
		r.failed()
	}
	return stop, fatal
}

// note is fail without the end of the transaction, for callers that hold the
// store's lock.
func (w *batch) note(r *Request, i int, err error) (stop bool, fatal error) {
	e := mongoerr.As(err)
	switch e.Code {
	case mongoerr.WriteConflict, mongoerr.NoSuchTransaction, mongoerr.InterruptedAtShutdown, mongoerr.MaxTimeMSExpired,
		mongoerr.SnapshotUnavailable, mongoerr.InternalError:
		return true, err
	}
	w.failed = append(w.failed, failure{i, e})
	return w.ordered || r.tx != nil, nil
}

// errors writes the write errors, where there are any.
func (w *batch) errors(b *bsonraw.Builder) {
	if len(w.failed) == 0 {
		return
	}
	b.StartArray("writeErrors")
	for i, f := range w.failed {
		b.Start(bsonraw.Index(i)).Int32("index", int32(f.index)).Int32("code", int32(f.err.Code))
		if f.err.KeyPattern != nil {
			b.Document("keyPattern", f.err.KeyPattern).Document("keyValue", f.err.KeyValue)
		}
		b.String("errmsg", f.err.Message).End()
	}
	b.End()
}

// retries writes which statements had been done before.
func (w *batch) retries(b *bsonraw.Builder) {
	if len(w.retried) == 0 {
		return
	}
	b.StartArray("retriedStmtIds")
	for i, id := range w.retried {
		b.Int32(bsonraw.Index(i), id)
	}
	b.End()
}
