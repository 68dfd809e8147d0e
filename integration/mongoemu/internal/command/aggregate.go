package command

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/aggregate"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/changestream"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// aggregation is a parsed aggregate command.
type aggregation struct {
	stages []bsonraw.Value
	batch  int
	hint   store.Hint
	by     collated
}

func aggregateCommand(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	a, err := parseAggregate(r)
	if err != nil {
		return err
	}
	if len(a.stages) > 0 {
		if name, spec := aggregate.Name(a.stages[0]); name == "$changeStream" {
			return openStream(e, r, b, a, spec)
		}
	}
	ns, err := r.collection()
	if err != nil {
		if r.value.Type != bsoncore.TypeString {
			return mongoerr.Lacking("aggregate on a whole database without $changeStream")
		}
		return err
	}
	vars, err := r.collatedVars(e, ns, a.by)
	if err != nil {
		return err
	}
	p, err := aggregate.Compile(a.stages, vars)
	if err != nil {
		return err
	}
	src, err := e.open(ctx, r, store.Query{NS: ns, Filter: p.Match, Order: p.Order, Limit: p.Limit, Hint: a.hint})
	if err != nil {
		return err
	}
	return e.firstBatch(ctx, r, b, &cursor{ns: ns, source: p.Run(src)}, a.batch, false)
}

func parseAggregate(r *Request) (aggregation, error) {
	a := aggregation{batch: defaultBatch}
	given, cursor := false, false
	err := r.options(func(key string, v bsonraw.Value) (known bool, err error) {
		switch key {
		case "pipeline":
			given = true
			a.stages, err = aggregate.Stages(v)
		case "cursor":
			cursor = true
			a.batch, err = cursorBatch(r, v)
		case "hint":
			a.hint, err = parseHint(r, v)
		case "collation":
			err = a.by.parse(v)
		case "allowDiskUse", "bypassDocumentValidation":
			var ignored bool
			err = r.flag(key, v, &ignored)
		case "explain":
			err = r.unset(key, v)
		case "let":
			err = mongoerr.Lacking("the aggregate option %q", key)
		default:
			return false, nil
		}
		return true, err
	})
	switch {
	case err != nil:
		return a, err
	case !given:
		return a, mongoerr.New(40414, "BSON field 'aggregate.pipeline' is missing but a required field")
	case !cursor:
		return a, mongoerr.New(mongoerr.FailedToParse, "The 'cursor' option is required, except for aggregate with the explain argument")
	}
	return a, nil
}

// openStream opens a change stream. The first batch contains the events that the log
// already has after the resume point.
func openStream(e *Engine, r *Request, b *bsonraw.Builder, a aggregation, spec bsonraw.Value) error {
	switch {
	case r.tx != nil:
		return mongoerr.New(mongoerr.OperationNotSupportedInTxn, "Stage $changeStream cannot run within a multi-document transaction")
	case r.readLevel != "" && r.readLevel != "majority":
		return mongoerr.New(mongoerr.InvalidOptions, "$changeStream cannot run with a readConcern other than 'majority'. Current readConcern: { level: \"%s\" }", r.readLevel)
	}
	ns := store.Namespace{DB: r.DB, Coll: "$cmd.aggregate"}
	coll := ""
	if r.value.Type == bsoncore.TypeString {
		var err error
		if ns, err = r.collection(); err != nil {
			return err
		}
		coll = ns.Coll
	} else if n, ok := bsonraw.Int64(r.value); !ok || n != 1 {
		return mongoerr.New(mongoerr.FailedToParse, "Invalid command format: the 'aggregate' field must specify a collection name or 1")
	}
	s, err := changestream.ParseSpec(r.DB, coll, spec)
	if err != nil {
		return err
	}
	stream, err := changestream.Open(e.Store.Log(), s, a.stages[1:], r.vars(), e.lookup)
	if err != nil {
		return err
	}
	if a.by.by != nil {
		return mongoerr.Lacking("a change stream with a collation")
	}
	c := &cursor{ns: ns, stream: stream}
	var events [][]byte
	if a.batch > 0 {
		if events, err = stream.Next(a.batch, maxBatchBytes); err != nil {
			return err
		}
	}
	if !stream.Ended() {
		c.own(r)
		e.cursors.add(c)
	}
	return c.changes(b, "firstBatch", events)
}

// lookup returns the current version of a document, for updateLookup.
func (e *Engine) lookup(db, coll string, uuid [16]byte, key []byte) []byte {
	var doc []byte
	_ = e.Store.View(e.Store.Majority(), func(v *store.Viewer) error {
		c := v.Collection(store.Namespace{DB: db, Coll: coll})
		if c == nil || c.UUID != uuid {
			return nil
		}
		idKey, err := c.IDKey(key)
		if err == nil {
			doc = c.Find(idKey)
		}
		return err
	})
	return doc
}

// explain reports the plan of a find: the index that it scans, and whether it sorts. It
// refuses all other commands.
func explain(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error {
	if r.value.Type != bsoncore.TypeEmbeddedDocument {
		return wrongType(r.Name, r.Name, r.value, "object")
	}
	if err := r.options(func(key string, _ bsonraw.Value) (bool, error) { return key == "verbosity", nil }); err != nil {
		return err
	}
	inner := &Request{DB: r.DB, Body: r.value.Data, conn: r.conn}
	it := bsonraw.NewIter(inner.Body)
	if !it.Next() {
		return mongoerr.New(mongoerr.BadValue, "explain command requires a nested object")
	}
	inner.Name, inner.value = string(it.Key()), it.Value()
	if inner.Name != "find" {
		return mongoerr.Lacking("explain of %s", inner.Name)
	}
	f, err := parseFind(e, inner)
	if err != nil {
		return err
	}
	rows, err := e.Store.Open(ctx, nil, f.query)
	if err != nil {
		return err
	}
	plan := rows.Plan()
	b.Start("queryPlanner").String("namespace", f.query.NS.String()).Start("winningPlan")
	if !plan.Sorted {
		b.String("stage", "SORT").Start("inputStage")
	}
	if plan.Index == "" {
		b.String("stage", "COLLSCAN")
	} else {
		b.String("stage", "FETCH").Start("inputStage").String("stage", "IXSCAN").String("indexName", plan.Index).
			Bool("bounded", plan.Bounded).End()
	}
	if !plan.Sorted {
		b.End()
	}
	b.End().End()
	b.Document("command", inner.Body)
	return nil
}
