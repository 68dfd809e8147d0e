package store_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsongen"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

var ns = store.Namespace{DB: "db", Coll: "c"}

func newStore() *store.Store { return store.New(oplog.New(oplog.Limits{}), time.Now) }

type fataler interface {
	Helper()
	Fatal(...any)
}

func matcher(t fataler, filter bson.D) *query.Matcher {
	t.Helper()
	m, err := query.Compile(bsonraw.MustMarshal(filter), expr.Vars{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func createIndex(t fataler, s *store.Store, keys bson.D, unique bool) {
	t.Helper()
	err := s.Do(context.Background(), nil, func(w *store.Writer) error {
		c := w.Collection(ns)
		if c == nil {
			var err error
			if c, err = w.Create(ns, nil); err != nil {
				return err
			}
		}
		_, err := w.CreateIndexes(c.NS, store.IndexSpec{Name: fmt.Sprint(keys), Pattern: bsonraw.MustMarshal(keys), Unique: unique})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// modelled is a store and the documents that it must contain.
type modelled struct {
	t     *rapid.T
	store *store.Store
	docs  []bson.Raw
	next  int32
}

func (w *modelled) do(tx *store.Tx, fn func(*store.Writer) error) error {
	return w.store.Do(context.Background(), tx, fn)
}

func (w *modelled) insert() {
	w.next++
	doc := append(bson.D{{Key: "_id", Value: w.next}}, bsongen.Document(2, bsongen.Names).Draw(w.t, "doc")...)
	raw := bsonraw.MustMarshal(doc)
	err := w.do(nil, func(sw *store.Writer) error { return sw.Insert(ns, raw) })
	switch {
	case err == nil:
		w.docs = append(w.docs, raw)
	case !mongoerr.Has(err, mongoerr.CannotIndexParallelArrays):
		w.t.Fatal(err)
	}
}

func (w *modelled) remove() {
	if len(w.docs) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.docs)-1).Draw(w.t, "remove")
	err := w.do(nil, func(sw *store.Writer) error {
		found, err := sw.Select(sw.Collection(ns), matcher(w.t, bson.D{{Key: "_id", Value: w.docs[i].Lookup("_id")}}), nil, store.Hint{}, 1)
		if err != nil || len(found) != 1 {
			return fmt.Errorf("found %d, %w", len(found), err)
		}
		return sw.Remove(sw.Collection(ns), found[0])
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.docs = slices.Delete(w.docs, i, i+1)
}

func (w *modelled) replace() {
	if len(w.docs) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.docs)-1).Draw(w.t, "replace")
	doc := append(bson.D{{Key: "_id", Value: w.docs[i].Lookup("_id")}}, bsongen.Document(2, bsongen.Names).Draw(w.t, "doc")...)
	raw := bsonraw.MustMarshal(doc)
	err := w.do(nil, func(sw *store.Writer) error {
		found, err := sw.Select(sw.Collection(ns), matcher(w.t, bson.D{{Key: "_id", Value: w.docs[i].Lookup("_id")}}), nil, store.Hint{}, 1)
		if err != nil || len(found) != 1 {
			return fmt.Errorf("found %d, %w", len(found), err)
		}
		return sw.Replace(sw.Collection(ns), found[0], raw, nil)
	})
	switch {
	case err == nil:
		w.docs[i] = raw
	case !mongoerr.Has(err, mongoerr.CannotIndexParallelArrays):
		w.t.Fatal(err)
	}
}

func condition(t *rapid.T, depth int) bson.D {
	filter := bson.D{}
	for range rapid.IntRange(1, 2).Draw(t, "fields") {
		path := rapid.SampledFrom([]string{"a", "b", "a.b", "c", "_id"}).Draw(t, "path")
		op := rapid.SampledFrom([]string{"$eq", "$gt", "$gte", "$lt", "$lte", "$in", "$ne", "$exists"}).Draw(t, "op")
		var operand any
		switch op {
		case "$in":
			operand = bson.A(rapid.SliceOfN(bsongen.Value(1), 0, 3).Draw(t, "operands"))
		case "$exists":
			operand = rapid.Bool().Draw(t, "exists")
		default:
			operand = bsongen.Value(1).Draw(t, "operand")
		}
		filter = append(filter, bson.E{Key: path, Value: bson.D{{Key: op, Value: operand}}})
	}
	if depth > 0 && rapid.IntRange(0, 3).Draw(t, "or") == 0 {
		filter = append(filter, bson.E{Key: "$or", Value: bson.A{condition(t, depth-1), condition(t, depth-1)}})
	}
	return filter
}

// ask compares a query through the planner, in batches, with a scan of all documents.
func (w *modelled) ask(tx *store.Tx, docs []bson.Raw) {
	filter := condition(w.t, 1)
	m := matcher(w.t, filter)
	var order []store.KeyPart
	for _, field := range rapid.SampledFrom([][]string{nil, {"a"}, {"a", "b"}, {"b", "a"}, {"c"}, {"_id"}}).Draw(w.t, "order") {
		order = append(order, store.KeyPart{Field: field, Path: []string{field}, Desc: rapid.Bool().Draw(w.t, "descending")})
	}
	q := store.Query{NS: ns, Filter: m, Order: order}
	rows, err := w.store.Open(context.Background(), tx, q)
	if err != nil {
		w.t.Fatal(err)
	}
	var got [][]byte
	for {
		batch, done, err := rows.Next(context.Background(), rapid.IntRange(1, 4).Draw(w.t, "batch"), 1<<20)
		if err != nil {
			w.t.Fatal(err)
		}
		got = append(got, batch...)
		if done {
			break
		}
	}
	var want [][]byte
	for _, doc := range docs {
		ok, err := m.Match(doc)
		if err != nil {
			w.t.Fatal(err)
		}
		if ok {
			want = append(want, doc)
		}
	}
	w.ordered(filter, order, rows.Plan(), got)
	if a, b := byID(got), byID(want); !slices.EqualFunc(a, b, bytes.Equal) {
		w.t.Fatalf("%v by %+v:\n got %v\nwant %v", filter, rows.Plan(), raws(a), raws(b))
	}
}

func (w *modelled) ordered(filter bson.D, order []store.KeyPart, plan store.Plan, docs [][]byte) {
	var last []byte
	for _, doc := range docs {
		key, err := store.SortKey(nil, doc, order, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		if bytes.Compare(last, key) > 0 {
			w.t.Fatalf("%v by %+v is out of order: %v", filter, plan, raws(docs))
		}
		last = key
	}
}

func byID(docs [][]byte) [][]byte {
	sorted := slices.Clone(docs)
	slices.SortFunc(sorted, func(a, b []byte) int {
		x, _ := bsonraw.Lookup(a, "_id")
		y, _ := bsonraw.Lookup(b, "_id")
		return bsonraw.Compare(x, y)
	})
	return sorted
}

func raws(docs [][]byte) []string {
	out := make([]string, len(docs))
	for i, doc := range docs {
		out[i] = bsonraw.FormatDocument(doc)
	}
	return out
}

// For every index and every batch size, a query returns the same documents as a scan of
// all documents. A transaction keeps reading its snapshot.
func TestPlannerAgainstFullScan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &modelled{t: t, store: newStore()}
		createIndex(t, w.store, bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 1}}, false)
		createIndex(t, w.store, bson.D{{Key: "a.b", Value: -1}}, false)
		createIndex(t, w.store, bson.D{{Key: "b", Value: -1}, {Key: "a", Value: 1}, {Key: "_id", Value: 1}}, true)
		createIndex(t, w.store, bson.D{{Key: "c", Value: 1}}, false)
		var tx *store.Tx
		var snapshot []bson.Raw
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1, 2, 3:
				w.insert()
			case 4:
				w.remove()
			case 5:
				w.replace()
			case 6:
				if tx == nil {
					tx, snapshot = w.store.Begin(), slices.Clone(w.docs)
				}
			default:
				w.ask(nil, w.docs)
				if tx != nil {
					w.ask(tx, snapshot)
				}
			}
		}
		for range 5 {
			w.ask(nil, w.docs)
		}
		if tx != nil {
			tx.Abort()
		}
	})
}
