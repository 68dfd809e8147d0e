package command

import (
	"context"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/session"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// deleting is one statement of a delete command.
type deleting struct {
	ns     store.Namespace
	q      []byte
	filter *query.Matcher
	hint   store.Hint
	by     collated
	limit  int
}

func deleteCommand(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	w, err := parseBatch(r, "deletes")
	if err != nil {
		return err
	}
	deletes := make([]*deleting, len(w.statements))
	for i, doc := range w.statements {
		if deletes[i], err = parseDelete(r, w.ns, doc); err != nil {
			return err
		}
	}
	if err := w.run(r, func(i int) (session.Result, error) {
		return deletes[i].do(ctx, e, r)
	}, func(int, session.Result) {}); err != nil {
		return err
	}
	b.Int32("n", w.n)
	w.reply(e, r, b)
	return nil
}

// parseDelete parses a statement. A parse error fails the whole command before it writes
// anything.
func parseDelete(r *Request, ns store.Namespace, doc []byte) (*deleting, error) {
	d := &deleting{ns: ns, limit: -1}
	for it := bsonraw.NewIter(doc); it.Next(); {
		v := it.Value()
		var err error
		switch key := string(it.Key()); key {
		case "q":
			d.q, err = documentOption(r, "deletes.q", v)
		case "limit":
			n, ok := bsonraw.Int64(v)
			if !ok || n != 0 && n != 1 {
				err = mongoerr.New(mongoerr.FailedToParse, "The limit field in delete objects must be 0 or 1. Got %s", bsonraw.Format(v))
			}
			d.limit = int(n)
		case "hint":
			d.hint, err = parseHint(r, v)
		case "collation":
			err = d.by.parse(v)
		default:
			err = mongoerr.New(40415, "BSON field 'delete.deletes.%s' is an unknown field.", key)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case d.q == nil:
		return nil, mongoerr.New(40414, "BSON field 'delete.deletes.q' is missing but a required field")
	case d.limit < 0:
		return nil, mongoerr.New(40414, "BSON field 'delete.deletes.limit' is missing but a required field")
	}
	return d, nil
}

// do executes the statement.
func (d *deleting) do(ctx context.Context, e *Engine, r *Request) (result session.Result, err error) {
	if d.filter, _, err = r.compile(e, d.ns, d.by, d.q); err != nil {
		return result, err
	}
	if r.retryable && d.limit == 0 {
		return result, mongoerr.New(mongoerr.InvalidOptions, "Cannot use retryable writes with limit=0")
	}
	result.N, err = d.run(ctx, e, r)
	return result, err
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
			if found, err = w.Select(c, d.filter, nil, d.hint, d.limit); err != nil {
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
