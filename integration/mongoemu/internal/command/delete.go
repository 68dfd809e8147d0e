package command

import (
	"context"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/session"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// deleting is one statement of a delete.
type deleting struct {
	ns     store.Namespace
	filter *query.Matcher
	order  []store.KeyPart
	hint   store.Hint
	limit  int
}

func deleteCommand(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	ns, err := r.collection()
	if err != nil {
		return err
	}
	docs, err := r.list("deletes")
	if err != nil {
		return err
	}
	w, err := newBatch(r, len(docs))
	if err != nil {
		return err
	}
	if err := r.options(func(key string, v bsonraw.Value) (bool, error) {
		if key == "deletes" {
			return true, nil
		}
		return w.option(r, key, v)
	}); err != nil {
		return err
	}
	for i, d := range docs {
		result, done := session.Result{}, false
		if r.retryable {
			result, done = r.session.Done(w.id(i))
		}
		if done {
			w.retried = append(w.retried, w.id(i))
		} else if result, err = e.deleteOne(ctx, r, ns, d, w.id(i)); err != nil {
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
	}
	b.Int32("n", w.n)
	w.errors(b)
	w.retries(b)
	e.written(r, b)
	return nil
}

func (e *Engine) deleteOne(ctx context.Context, r *Request, ns store.Namespace, doc []byte, id int32) (session.Result, error) {
	d, err := parseDelete(e, r, ns, doc)
	if err != nil {
		return session.Result{}, err
	}
	if r.retryable && d.limit == 0 {
		return session.Result{}, mongoerr.New(mongoerr.InvalidOptions, "Cannot use retryable writes with limit=0")
	}
	n, err := d.run(ctx, e, r)
	result := session.Result{N: n}
	if err == nil && r.retryable {
		r.session.Remember(id, result)
	}
	return result, err
}

func parseDelete(e *Engine, r *Request, ns store.Namespace, doc []byte) (*deleting, error) {
	d := &deleting{ns: ns, limit: -1}
	var filter []byte
	for it := bsonraw.NewIter(doc); it.Next(); {
		v := it.Value()
		var err error
		switch key := string(it.Key()); key {
		case "q":
			filter, err = documentOption(r, "deletes.q", v)
		case "limit":
			n, ok := bsonraw.Int64(v)
			if !ok || n != 0 && n != 1 {
				err = mongoerr.New(mongoerr.FailedToParse, "The limit field in delete objects must be 0 or 1. Got %s", bsonraw.Format(v))
			}
			d.limit = int(n)
		case "hint":
			d.hint, err = parseHint(r, v)
		case "collation":
			err = simpleCollation(v)
		default:
			err = mongoerr.New(40415, "BSON field 'delete.deletes.%s' is an unknown field.", key)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case filter == nil:
		return nil, mongoerr.New(40414, "BSON field 'delete.deletes.q' is missing but a required field")
	case d.limit < 0:
		return nil, mongoerr.New(40414, "BSON field 'delete.deletes.limit' is missing but a required field")
	}
	var err error
	d.filter, err = query.Compile(filter, r.vars(e))
	return d, err
}

func (d *deleting) run(ctx context.Context, e *Engine, r *Request) (int32, error) {
	n := int32(0)
	var found []*store.Record
	selected := false
	i := 0
	err := e.Store.Do(ctx, r.tx, func(w *store.Writer) error {
		c := w.Collection(d.ns)
		if c == nil {
			return nil
		}
		if !selected || d.limit == 1 {
			var err error
			if found, err = w.Select(c, d.filter, d.order, d.hint, d.limit); err != nil {
				return err
			}
			selected = true
		}
		for ; i < len(found); i++ {
			rec := c.Current(found[i])
			if rec == nil {
				continue
			}
			if rec != found[i] {
				if ok, err := d.filter.Match(rec.Doc); err != nil || !ok {
					continue
				}
			}
			if err := w.Remove(c, rec); err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, err
}
