package command

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/projection"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// finding is a parsed find command.
type finding struct {
	query      store.Query
	projection projection.Transform
	vars       expr.Vars
	batch      int
	single     bool
}

func find(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	f, err := parseFind(e, r)
	if err != nil {
		return err
	}
	src, err := e.open(ctx, r, f.query)
	if err != nil {
		return err
	}
	c := &cursor{ns: f.query.NS, source: src, projection: f.projection, vars: f.vars}
	return e.firstBatch(ctx, r, b, c, f.batch, f.single)
}

// open runs a query on a collection, or on a view of the oplog or of the cluster.
func (e *Engine) open(ctx context.Context, r *Request, q store.Query) (source, error) {
	switch {
	case q.NS == oplogNamespace:
		return e.openOplog(q)
	case e.Sharded && q.NS.DB == "config":
		return e.openConfig(q)
	}
	return e.Store.Open(ctx, r.snapshot(), q)
}

func parseFind(e *Engine, r *Request) (finding, error) {
	f := finding{batch: defaultBatch}
	var err error
	if f.query.NS, err = r.collection(); err != nil {
		return f, err
	}
	filter := emptyDocument
	asked := false
	var bounds store.Hint
	var by collated
	err = r.options(func(key string, v bsonraw.Value) (known bool, err error) {
		switch key {
		case "filter":
			filter, err = documentOption(r, key, v)
		case "sort":
			var spec []byte
			if spec, err = documentOption(r, key, v); err == nil {
				f.query.Order, f.query.Natural, err = store.ParseSort(spec)
			}
		case "projection":
			var spec []byte
			if spec, err = documentOption(r, key, v); err == nil && !bsonraw.Empty(spec) {
				f.projection, err = projection.Compile(spec)
			}
		case "hint":
			f.query.Hint, err = parseHint(r, v)
		case "skip":
			f.query.Skip, err = nonNegative(r, key, v)
		case "limit":
			f.query.Limit, err = nonNegative(r, key, v)
		case "batchSize":
			var n int64
			n, err = nonNegative(r, key, v)
			f.batch, asked = int(n), true
		case "singleBatch":
			err = r.flag(key, v, &f.single)
		case "collation":
			err = by.parse(v)
		case "allowDiskUse", "noCursorTimeout", "allowPartialResults", "oplogReplay":
			var ignored bool
			err = r.flag(key, v, &ignored)
		case "tailable", "awaitData", "returnKey", "showRecordId":
			err = r.unset(key, v)
		case "min":
			bounds.Min, err = documentOption(r, key, v)
		case "max":
			bounds.Max, err = documentOption(r, key, v)
		case "let":
			err = mongoerr.Lacking("the find option %q", key)
		default:
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return f, err
	}
	f.query.Hint.Min, f.query.Hint.Max = bounds.Min, bounds.Max
	if f.single && !asked && f.query.Limit > 0 {
		f.batch = int(f.query.Limit)
	}
	if err := e.unreadable(f.query.NS.Coll, filter); err != nil {
		return f, err
	}
	f.query.Filter, f.vars, err = r.compile(e, f.query.NS, by, filter)
	return f, err
}

// unreadable returns the error of a fault on one of the documents that a filter names by _id, or
// nil.
func (e *Engine) unreadable(collection string, filter []byte) error {
	v, _ := bsonraw.Lookup(filter, "_id")
	named := []bsonraw.Value{v}
	if v.Type == bsoncore.TypeEmbeddedDocument {
		list, _ := bsonraw.Lookup(v.Data, "$in")
		named = bsonraw.Elements(list.Data)
	}
	for _, v := range named {
		id, _ := v.StringValueOK()
		if code := e.Faults.Document(collection, id, true); code != 0 {
			return mongoerr.New(mongoerr.Code(code), "Failing the read of %q by order of a test", id)
		}
	}
	return nil
}

func documentOption(r *Request, key string, v bsonraw.Value) ([]byte, error) {
	if v.Type != bsoncore.TypeEmbeddedDocument {
		return nil, wrongType(r.Name, key, v, "object")
	}
	return v.Data, nil
}

func parseHint(r *Request, v bsonraw.Value) (store.Hint, error) {
	switch v.Type {
	case bsoncore.TypeString:
		return store.Hint{Name: string(bsonraw.Text(v))}, nil
	case bsoncore.TypeEmbeddedDocument:
		if bsonraw.Empty(v.Data) {
			return store.Hint{}, nil
		}
		if n, ok := bsonraw.Lookup(v.Data, "$natural"); ok {
			direction := 1
			if bsonraw.Float64(n) < 0 {
				direction = -1
			}
			return store.Hint{Natural: direction}, nil
		}
		return store.Hint{Pattern: v.Data}, nil
	}
	return store.Hint{}, wrongType(r.Name, "hint", v, "string or object")
}

func count(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	ns, err := r.collection()
	if err != nil {
		return err
	}
	q := store.Query{NS: ns}
	filter := emptyDocument
	var by collated
	if err := r.options(func(key string, v bsonraw.Value) (known bool, err error) {
		switch key {
		case "query":
			filter, err = documentOption(r, key, v)
		case "limit":
			var n int64
			if n, err = wholeNumber(r, key, v); n < 0 {
				n = -n
			}
			q.Limit = n
		case "skip":
			q.Skip, err = nonNegative(r, key, v)
		case "hint":
			q.Hint, err = parseHint(r, v)
		case "collation":
			err = by.parse(v)
		case "fields":
		default:
			return false, nil
		}
		return true, err
	}); err != nil {
		return err
	}
	if q.Filter, _, err = r.compile(e, ns, by, filter); err != nil {
		return err
	}
	n, err := e.countQuery(ctx, r, q)
	if err != nil {
		return err
	}
	number(b, "n", n)
	return nil
}

func (e *Engine) countQuery(ctx context.Context, r *Request, q store.Query) (int64, error) {
	if q.Filter.All() && q.Skip == 0 && q.Limit == 0 && q.NS != oplogNamespace {
		n := int64(0)
		err := e.Store.View(r.snapshot(), func(v *store.Viewer) error {
			if c := v.Collection(q.NS); c != nil {
				n = int64(c.Len())
			}
			return nil
		})
		return n, err
	}
	src, err := e.open(ctx, r, q)
	if err != nil {
		return 0, err
	}
	n := int64(0)
	for {
		docs, done, err := src.Next(ctx, 4096, 1<<40)
		if err != nil {
			return 0, err
		}
		n += int64(len(docs))
		if done {
			return n, nil
		}
	}
}

func wholeNumber(r *Request, field string, v bsonraw.Value) (int64, error) {
	n, ok := bsonraw.Int64(v)
	if !ok {
		return 0, wrongType(r.Name, field, v, "long")
	}
	return n, nil
}

func distinct(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	ns, err := r.collection()
	if err != nil {
		return err
	}
	q := store.Query{NS: ns}
	filter := emptyDocument
	var by collated
	var path query.Path
	if err := r.options(func(key string, v bsonraw.Value) (known bool, err error) {
		switch key {
		case "key":
			if v.Type != bsoncore.TypeString {
				return true, wrongType(r.Name, key, v, "string")
			}
			path = query.ParsePath(string(bsonraw.Text(v)))
		case "query":
			filter, err = documentOption(r, key, v)
		case "hint":
			q.Hint, err = parseHint(r, v)
		case "collation":
			err = by.parse(v)
		default:
			return false, nil
		}
		return true, err
	}); err != nil {
		return err
	}
	if path == nil {
		return mongoerr.New(40414, "BSON field 'distinct.key' is missing but a required field")
	}
	compiled, vars, err := r.compile(e, ns, by, filter)
	if err != nil {
		return err
	}
	q.Filter = compiled
	src, err := e.open(ctx, r, q)
	if err != nil {
		return err
	}
	values, err := distinctValues(ctx, src, path, vars.Collation)
	if err != nil {
		return err
	}
	b.Value("values", bsonraw.Array(values))
	return nil
}

func distinctValues(ctx context.Context, src source, path query.Path, by *collation.Collation) ([]bsonraw.Value, error) {
	seen := map[string]struct{}{}
	var values []bsonraw.Value
	var failed error
	collect := func(v bsonraw.Value) bool {
		if bsonraw.IsMissing(v) {
			return false
		}
		key, err := bsonraw.AppendKey(nil, by.Value(v))
		if err != nil {
			failed = mongoerr.Lacking("this value in distinct: %v", err)
			return true
		}
		if _, ok := seen[string(key)]; !ok {
			seen[string(key)] = struct{}{}
			values = append(values, v)
		}
		return false
	}
	for {
		docs, done, err := src.Next(ctx, 4096, 1<<40)
		if err != nil {
			return nil, err
		}
		for _, d := range docs {
			path.Walk(d, false, func(v bsonraw.Value) bool {
				if v.Type != bsoncore.TypeArray {
					return collect(v)
				}
				for it := bsonraw.NewIter(v.Data); it.Next(); {
					if collect(it.Value()) {
						return true
					}
				}
				return false
			})
			if failed != nil {
				return nil, failed
			}
		}
		if done {
			return values, nil
		}
	}
}
