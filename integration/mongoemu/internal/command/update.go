package command

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/session"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/update"
)

// updating is one statement of an update.
type updating struct {
	ns     store.Namespace
	filter *query.Matcher
	update *update.Update
	order  []store.KeyPart
	hint   store.Hint
	multi  bool
	upsert bool
}

func updateCommand(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	ns, err := r.collection()
	if err != nil {
		return err
	}
	docs, err := r.list("updates")
	if err != nil {
		return err
	}
	w, err := newBatch(r, len(docs))
	if err != nil {
		return err
	}
	if err := r.options(func(key string, v bsonraw.Value) (bool, error) {
		if key == "updates" {
			return true, nil
		}
		return w.option(r, key, v)
	}); err != nil {
		return err
	}
	modified := int32(0)
	upserted := bsonraw.NewBuilder(64)
	count := 0
	for i, d := range docs {
		result, done := session.Result{}, false
		if r.retryable {
			result, done = r.session.Done(w.id(i))
		}
		if done {
			w.retried = append(w.retried, w.id(i))
		} else if result, err = e.updateOne(ctx, r, ns, d, w.id(i)); err != nil {
			stop, fatal := w.fail(r, i, err)
			if fatal != nil {
				return fatal
			}
			if stop {
				break
			}
			continue
		}
		w.n += result.N
		modified += result.Modified
		if !bsonraw.IsMissing(result.Upserted) {
			upserted.Start(bsonraw.Index(count)).Int32("index", int32(i)).Value("_id", result.Upserted).End()
			count++
		}
	}
	b.Int32("n", w.n).Int32("nModified", modified)
	if count > 0 {
		b.Value("upserted", bsonraw.Value{Type: bsoncore.TypeArray, Data: upserted.Bytes()})
	}
	w.errors(b)
	w.retries(b)
	e.written(r, b)
	return nil
}

func (e *Engine) updateOne(ctx context.Context, r *Request, ns store.Namespace, doc []byte, id int32) (session.Result, error) {
	u, err := parseUpdate(e, r, ns, doc)
	if err != nil {
		return session.Result{}, err
	}
	if r.retryable && u.multi {
		return session.Result{}, mongoerr.New(mongoerr.InvalidOptions, "Cannot use retryable writes with multi=true")
	}
	result, err := u.run(ctx, e, r)
	if err == nil && r.retryable {
		r.session.Remember(id, result)
	}
	return result, err
}

func parseUpdate(e *Engine, r *Request, ns store.Namespace, doc []byte) (*updating, error) {
	u := &updating{ns: ns}
	filter := []byte(nil)
	var change bsonraw.Value
	for it := bsonraw.NewIter(doc); it.Next(); {
		v := it.Value()
		var err error
		switch key := string(it.Key()); key {
		case "q":
			filter, err = documentOption(r, "updates.q", v)
		case "u":
			change = v
		case "multi":
			u.multi = bsonraw.Truthy(v)
		case "upsert":
			u.upsert = bsonraw.Truthy(v)
		case "hint":
			u.hint, err = parseHint(r, v)
		case "collation":
			err = simpleCollation(v)
		case "sort", "sampleId", "upsertSupplied", "c", "arrayFilters":
			err = mongoerr.Lacking("the update option %q", key)
		default:
			err = mongoerr.New(40415, "BSON field 'update.updates.%s' is an unknown field.", key)
		}
		if err != nil {
			return nil, err
		}
	}
	if filter == nil {
		return nil, mongoerr.New(40414, "BSON field 'update.updates.q' is missing but a required field")
	}
	return u, u.compile(e, r, filter, change)
}

func (u *updating) compile(e *Engine, r *Request, filter []byte, change bsonraw.Value) (err error) {
	if u.filter, err = query.Compile(filter, r.vars(e)); err != nil {
		return err
	}
	if u.update, err = update.Compile(change); err != nil {
		return err
	}
	if u.multi && u.update.IsReplacement() {
		return mongoerr.New(mongoerr.FailedToParse, "multi update is not supported for replacement-style update")
	}
	return nil
}

func (u *updating) run(ctx context.Context, e *Engine, r *Request) (session.Result, error) {
	if u.multi {
		return u.runMulti(ctx, e, r)
	}
	var result session.Result
	err := e.Store.Do(ctx, r.tx, func(w *store.Writer) error {
		var err error
		result, _, _, err = u.apply(w)
		return err
	})
	return result, err
}

// apply updates the first matching document, or inserts one; before and after
// are its versions, nil where there is none.
func (u *updating) apply(w *store.Writer) (result session.Result, before, after []byte, err error) {
	c := w.Collection(u.ns)
	if c != nil {
		found, err := w.Select(c, u.filter, u.order, u.hint, 1)
		if err != nil {
			return result, nil, nil, err
		}
		if len(found) > 0 {
			after, modified, err := u.change(w, c, found[0])
			result.N = 1
			if modified {
				result.Modified = 1
			}
			return result, found[0].Doc, after, err
		}
	}
	if !u.upsert {
		return result, nil, nil, nil
	}
	doc, err := u.upserted(w)
	if err != nil {
		return result, nil, nil, err
	}
	if err := w.Insert(u.ns, doc); err != nil {
		return result, nil, nil, err
	}
	result.N = 1
	result.Upserted, _ = bsonraw.Lookup(doc, "_id")
	return result, nil, doc, nil
}

func (u *updating) change(w *store.Writer, c *store.Collection, rec *store.Record) (after []byte, modified bool, err error) {
	next, err := u.update.Apply(rec.Doc, update.Context{Now: w.Now()})
	if err != nil || !next.Changed {
		return rec.Doc, false, err
	}
	return next.Doc, true, w.Replace(c, rec, next.Doc, next.Description)
}

// runMulti updates every matching document, each by itself, as the server does
// when it yields between them.
func (u *updating) runMulti(ctx context.Context, e *Engine, r *Request) (session.Result, error) {
	var result session.Result
	var found []*store.Record
	err := e.Store.Do(ctx, r.tx, func(w *store.Writer) (err error) {
		if c := w.Collection(u.ns); c != nil {
			found, err = w.Select(c, u.filter, nil, u.hint, 0)
		}
		return err
	})
	if err != nil {
		return result, err
	}
	if len(found) == 0 {
		single := *u
		single.multi = false
		return single.run(ctx, e, r)
	}
	i := 0
	err = e.Store.Do(ctx, r.tx, func(w *store.Writer) error {
		for ; i < len(found); i++ {
			c := w.Collection(u.ns)
			if c == nil {
				return nil
			}
			rec := c.Current(found[i])
			if rec == nil {
				continue
			}
			if rec != found[i] {
				if ok, err := u.filter.Match(rec.Doc); err != nil || !ok {
					continue
				}
			}
			_, modified, err := u.change(w, c, rec)
			if err != nil {
				return err
			}
			result.N++
			if modified {
				result.Modified++
			}
		}
		return nil
	})
	return result, err
}

// upserted makes the document that an upsert inserts: from the fields that the
// filter fixes, then by the update.
func (u *updating) upserted(w *store.Writer) ([]byte, error) {
	start, err := u.seed()
	if err != nil {
		return nil, err
	}
	next, err := u.update.Apply(start, update.Context{Insert: true, Now: w.Now()})
	if err != nil {
		return nil, err
	}
	return w.Prepared(next.Doc), nil
}

func (u *updating) seed() ([]byte, error) {
	var fields []query.Equality
	for _, eq := range u.filter.Equalities() {
		if u.update.IsReplacement() && eq.Path.String() != "_id" {
			continue
		}
		fields = append(fields, eq)
	}
	return update.Seed(fields)
}
