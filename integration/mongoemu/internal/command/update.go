package command

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/session"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/update"
)

// updating is one statement of an update command.
type updating struct {
	ns     store.Namespace
	q      []byte
	u      bsonraw.Value
	filter *query.Matcher
	vars   expr.Vars
	update *update.Update
	order  []store.KeyPart
	hint   store.Hint
	by     collated
	multi  bool
	upsert bool
	bypass bool // skip validators
}

func updateCommand(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	w, err := parseBatch(r, "updates")
	if err != nil {
		return err
	}
	updates := make([]*updating, len(w.statements))
	for i, doc := range w.statements {
		if updates[i], err = parseUpdate(r, w.ns, doc); err != nil {
			return err
		}
		updates[i].bypass = w.bypass
	}
	modified := int32(0)
	upserted := bsonraw.NewBuilder(64)
	count := 0
	if err := w.run(r, func(i int) (session.Result, error) {
		return updates[i].do(ctx, e, r)
	}, func(i int, result session.Result) {
		modified += result.Modified
		if !bsonraw.IsMissing(result.Upserted) {
			upserted.Start(bsonraw.Index(count)).Int32("index", int32(i)).Value("_id", result.Upserted).End()
			count++
		}
	}); err != nil {
		return err
	}
	b.Int32("n", w.n).Int32("nModified", modified)
	if count > 0 {
		b.Value("upserted", bsonraw.Value{Type: bsoncore.TypeArray, Data: upserted.Bytes()})
	}
	w.reply(e, r, b)
	return nil
}

// parseUpdate parses a statement. A parse error fails the whole command before it writes
// anything.
func parseUpdate(r *Request, ns store.Namespace, doc []byte) (*updating, error) {
	u := &updating{ns: ns}
	for it := bsonraw.NewIter(doc); it.Next(); {
		v := it.Value()
		var err error
		switch key := string(it.Key()); key {
		case "q":
			u.q, err = documentOption(r, "updates.q", v)
		case "u":
			u.u = v
		case "multi":
			err = r.flag("updates.multi", v, &u.multi)
		case "upsert":
			err = r.flag("updates.upsert", v, &u.upsert)
		case "hint":
			u.hint, err = parseHint(r, v)
		case "collation":
			err = u.by.parse(v)
		case "sort", "sampleId", "upsertSupplied", "c", "arrayFilters":
			err = mongoerr.Lacking("the update option %q", key)
		default:
			err = mongoerr.New(40415, "BSON field 'update.updates.%s' is an unknown field.", key)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case u.q == nil:
		return nil, mongoerr.New(40414, "BSON field 'update.updates.q' is missing but a required field")
	case bsonraw.IsMissing(u.u):
		return nil, mongoerr.New(40414, "BSON field 'update.updates.u' is missing but a required field")
	}
	return u, nil
}

// do executes the statement.
func (u *updating) do(ctx context.Context, e *Engine, r *Request) (session.Result, error) {
	if err := u.compile(e, r); err != nil {
		return session.Result{}, err
	}
	if r.retryable && u.multi {
		return session.Result{}, mongoerr.New(mongoerr.InvalidOptions, "Cannot use retryable writes with multi=true")
	}
	return u.run(ctx, e, r)
}

func (u *updating) compile(e *Engine, r *Request) (err error) {
	if u.filter, u.vars, err = r.compile(e, u.ns, u.by, u.q); err != nil {
		return err
	}
	if u.update, err = update.Compile(u.u); err != nil {
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
		if u.bypass {
			w.BypassValidation()
		}
		var err error
		result, _, _, err = u.apply(w)
		return err
	})
	return result, err
}

// apply updates the first matching document, or inserts one if upsert is set. before and
// after are the versions of the document; nil if there is none.
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
	next, err := u.update.Apply(rec.Doc, update.Context{Now: w.Now(), Vars: u.vars})
	if err != nil || !next.Changed {
		return rec.Doc, false, err
	}
	return next.Doc, true, w.Replace(c, rec, next.Doc, next.Description)
}

// runMulti updates all matching documents, one by one. If it must wait for a transaction
// in between, the updates so far remain, as when the server yields.
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
		if u.bypass {
			w.BypassValidation()
		}
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

// upserted returns the document that an upsert inserts: the update applied to the fields
// that the filter fixes.
func (u *updating) upserted(w *store.Writer) ([]byte, error) {
	start, err := u.seed()
	if err != nil {
		return nil, err
	}
	next, err := u.update.Apply(start, update.Context{Insert: true, Now: w.Now(), Vars: u.vars})
	if err != nil {
		return nil, err
	}
	return w.Prepared(next.Doc)
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
