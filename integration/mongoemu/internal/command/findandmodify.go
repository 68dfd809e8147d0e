package command

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/projection"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/session"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// modifying is a parsed findAndModify command.
type modifying struct {
	filter     []byte
	order      []store.KeyPart
	hint       store.Hint
	by         collated
	change     bsonraw.Value
	remove     bool
	upsert     bool
	newVersion bool
	bypass     bool // skip validators
	projection projection.Transform
}

func findAndModify(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	ns, err := r.writable()
	if err != nil {
		return err
	}
	m, err := parseModify(r)
	if err != nil {
		return err
	}
	w, err := newBatch(r, 1)
	if err != nil {
		return err
	}
	result, err := w.once(r, 0, func(int) (session.Result, error) {
		reply, err := m.run(ctx, e, r, ns)
		return session.Result{Reply: reply}, err
	})
	if err != nil {
		return err
	}
	b.Elements(result.Reply)
	if len(w.retried) > 0 {
		b.Int32("retriedStmtId", w.retried[0])
	}
	e.acknowledge(r, b)
	return nil
}

func parseModify(r *Request) (*modifying, error) {
	m := &modifying{filter: emptyDocument}
	err := r.options(func(key string, v bsonraw.Value) (known bool, err error) {
		switch key {
		case "query":
			m.filter, err = documentOption(r, key, v)
		case "sort":
			var spec []byte
			if spec, err = documentOption(r, key, v); err == nil {
				m.order, _, err = store.ParseSort(spec)
			}
		case "remove":
			err = r.flag(key, v, &m.remove)
		case "update":
			m.change = v
		case "new":
			err = r.flag(key, v, &m.newVersion)
		case "upsert":
			err = r.flag(key, v, &m.upsert)
		case "fields":
			var spec []byte
			if spec, err = documentOption(r, key, v); err == nil && !bsonraw.Empty(spec) {
				m.projection, err = projection.Compile(spec)
			}
		case "hint":
			m.hint, err = parseHint(r, v)
		case "collation":
			err = m.by.parse(v)
		case "bypassDocumentValidation":
			err = r.flag(key, v, &m.bypass)
		case "arrayFilters", "let":
			err = mongoerr.Lacking("the findAndModify option %q", key)
		default:
			return false, nil
		}
		return true, err
	})
	has := !bsonraw.IsMissing(m.change)
	switch {
	case err != nil:
		return nil, err
	case m.remove && has:
		return nil, mongoerr.New(mongoerr.FailedToParse, "Cannot specify both an update and remove=true")
	case m.remove && m.upsert:
		return nil, mongoerr.New(mongoerr.FailedToParse, "Cannot specify both upsert=true and remove=true")
	case m.remove && m.newVersion:
		return nil, mongoerr.New(mongoerr.FailedToParse, "Cannot specify both new=true and remove=true; 'remove' always returns the deleted document")
	case !m.remove && !has:
		return nil, mongoerr.New(mongoerr.FailedToParse, "Either an update or remove=true must be specified")
	}
	return m, nil
}

// run executes the command and returns the fields of the reply.
func (m *modifying) run(ctx context.Context, e *Engine, r *Request, ns store.Namespace) ([]byte, error) {
	last := bsonraw.NewBuilder(64)
	var value []byte
	var err error
	if m.remove {
		value, err = m.runRemove(ctx, e, r, ns, last)
	} else {
		value, err = m.runUpdate(ctx, e, r, ns, last)
	}
	if err != nil {
		return nil, err
	}
	reply := bsonraw.NewBuilder(len(value)+96).Document("lastErrorObject", last.Bytes())
	if value == nil {
		return reply.Null("value").Bytes(), nil
	}
	if m.projection != nil {
		if value, err = m.projection.Apply(value, r.vars()); err != nil {
			return nil, err
		}
	}
	return reply.Document("value", value).Bytes(), nil
}

func (m *modifying) runRemove(ctx context.Context, e *Engine, r *Request, ns store.Namespace, last *bsonraw.Builder) ([]byte, error) {
	filter, _, err := r.compile(e, ns, m.by, m.filter)
	if err != nil {
		return nil, err
	}
	var value []byte
	err = e.Store.Do(ctx, r.tx, func(w *store.Writer) error {
		c := w.Collection(ns)
		if c == nil {
			return nil
		}
		found, err := w.Select(c, filter, m.order, m.hint, 1)
		if err != nil || len(found) == 0 {
			return err
		}
		if err := w.Remove(c, found[0]); err != nil {
			return err
		}
		value = found[0].Doc
		return nil
	})
	n := int32(0)
	if value != nil {
		n = 1
	}
	last.Int32("n", n)
	return value, err
}

func (m *modifying) runUpdate(ctx context.Context, e *Engine, r *Request, ns store.Namespace, last *bsonraw.Builder) ([]byte, error) {
	u := &updating{ns: ns, q: m.filter, u: m.change, order: m.order, hint: m.hint, by: m.by, upsert: m.upsert, bypass: m.bypass}
	if err := u.compile(e, r); err != nil {
		return nil, err
	}
	var result session.Result
	var before, after []byte
	err := e.Store.Do(ctx, r.tx, func(w *store.Writer) (err error) {
		if u.bypass {
			w.BypassValidation()
		}
		result, before, after, err = u.apply(w)
		return err
	})
	if err != nil {
		return nil, err
	}
	last.Int32("n", result.N).Bool("updatedExisting", before != nil)
	if result.Upserted.Type != bsoncore.Type(0) {
		last.Value("upserted", result.Upserted)
	}
	if m.newVersion {
		return after, nil
	}
	return before, nil
}
