package command

import (
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/session"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// batch is a write command: its collection, its statements and their results.
type batch struct {
	ns         store.Namespace
	statements [][]byte
	ordered    bool
	bypass     bool    // skip validators
	ids        []int32 // statement ids; nil means first, first+1, …
	first      int32
	retried    []int32
	failed     []failure
	n          int32
}

type failure struct {
	index int
	err   *mongoerr.Error
}

// parseBatch parses insert, update or delete: the collection, the list of statements and
// the common options.
func parseBatch(r *Request, list string) (*batch, error) {
	ns, err := r.writable()
	if err != nil {
		return nil, err
	}
	statements, err := r.list(list)
	if err != nil {
		return nil, err
	}
	w, err := newBatch(r, len(statements))
	if err != nil {
		return nil, err
	}
	w.ns, w.statements = ns, statements
	return w, r.options(func(key string, v bsonraw.Value) (known bool, err error) {
		switch key {
		case list, "maxTimeMS":
		case "ordered":
			err = r.flag(key, v, &w.ordered)
		case "bypassDocumentValidation":
			err = r.flag(key, v, &w.bypass)
		case "let":
			err = mongoerr.Lacking("the %s option %q", r.Name, key)
		default:
			return false, nil
		}
		return true, err
	})
}

// run executes the statements in order. It calls did for each statement that succeeds.
func (w *batch) run(r *Request, do func(i int) (session.Result, error), did func(i int, result session.Result)) error {
	for i := range w.statements {
		result, err := w.once(r, i, do)
		if err != nil {
			stop, fatal := w.fail(r, i, err)
			if fatal != nil {
				return fatal
			}
			if stop {
				return nil
			}
			continue
		}
		w.n += result.N
		did(i, result)
	}
	return nil
}

// once executes a statement and returns its result. For a retry of a statement that is
// already done, it returns the first result.
func (w *batch) once(r *Request, i int, do func(i int) (session.Result, error)) (session.Result, error) {
	if err := w.refused(r, i); err != nil {
		return session.Result{}, err
	}
	if !r.retryable {
		return do(i)
	}
	id := w.id(i)
	if result, done := r.session.Done(id); done {
		w.retried = append(w.retried, id)
		return result, nil
	}
	result, err := do(i)
	if err == nil {
		r.session.Remember(id, result)
	}
	return result, err
}

// refused returns the error of a fault on the document of a statement, or nil. The
// document is identified by its _id. For an update or a delete, this is the _id in the
// filter.
func (w *batch) refused(r *Request, i int) error {
	if i >= len(w.statements) {
		return nil
	}
	document := w.statements[i]
	if filter, ok := bsonraw.Lookup(document, "q"); ok && filter.Type == bsoncore.TypeEmbeddedDocument {
		document = filter.Data
	}
	v, ok := bsonraw.Lookup(document, "_id")
	if !ok || v.Type != bsoncore.TypeString {
		return nil
	}
	id, _ := v.StringValueOK()
	if code := r.engine.Faults.Document(w.ns.Coll, id, false); code != 0 {
		return mongoerr.New(mongoerr.Code(code), "Failing the write of %q by order of a test", id)
	}
	return nil
}

// newBatch checks the number of statements and parses their ids.
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

// fail records the error of a statement and reports whether the batch stops. It returns
// an error that fails the whole command as fatal. Inside a transaction, a recorded error
// aborts the transaction.
func (w *batch) fail(r *Request, i int, err error) (stop bool, fatal error) {
	if stop, fatal = w.note(r, i, err); fatal == nil {
		r.failed()
	}
	return stop, fatal
}

// note is like fail but does not abort the transaction, for callers that hold the store's
// lock.
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

// reply adds the last fields of a write's reply: failed statements, statements that were
// already done, the time, and the write concern error.
func (w *batch) reply(e *Engine, r *Request, b *bsonraw.Builder) {
	w.errors(b)
	w.retries(b)
	b.Start("opTime").Timestamp("ts", e.Store.OperationTime()).Int64("t", term).End()
	b.ObjectID("electionId", electionID)
	e.acknowledge(r, b)
}

// errors adds the write errors, if there are any.
func (w *batch) errors(b *bsonraw.Builder) {
	if len(w.failed) == 0 {
		return
	}
	b.StartArray("writeErrors")
	for i, f := range w.failed {
		b.Start(bsonraw.Index(i)).Int32("index", int32(f.index)).Int32("code", int32(f.err.Code))
		if f.err.Info != nil {
			b.Document("errInfo", f.err.Info)
		}
		if f.err.KeyPattern != nil {
			b.Document("keyPattern", f.err.KeyPattern).Document("keyValue", f.err.KeyValue)
		}
		b.String("errmsg", f.err.Message).End()
	}
	b.End()
}

// retries adds the ids of the statements that were already done.
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
