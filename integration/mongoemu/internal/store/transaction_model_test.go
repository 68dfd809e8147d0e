package store_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// version is one document {_id, v}. Each insert gives it a new record, and each write a
// new change.
type version struct{ v, record, change int32 }

// side is the shared state or one transaction: the documents that it sees and what it has
// written.
type side struct {
	tx   *store.Tx // nil for the shared state
	docs map[int32]version
	// ids and values are the ids and values that the transaction has written, including
	// the values that it replaced.
	ids, values map[int32]bool
	ops         int
}

func (s *side) holder(v int32) int32 {
	for id, doc := range s.docs {
		if doc.v == v {
			return id
		}
	}
	return -1
}

// record returns the record that holds a value, or 0.
func (s *side) record(v int32) int32 { return s.docs[s.holder(v)].record }

// isolation is a store with a unique index on v, and a model of snapshot isolation in
// which the first writer wins.
type isolation struct {
	t     *rapid.T
	store *store.Store
	all   *side
	open  []*side
	count int32 // number of records and changes so far
}

var (
	errConflict  = mongoerr.New(mongoerr.WriteConflict, "")
	errDuplicate = mongoerr.New(mongoerr.DuplicateKey, "")
	errWaits     = errors.New("waits")
	errNothing   = errors.New("no such document")
)

// others reports whether another open transaction satisfies written.
func (w *isolation) others(s *side, written func(*side) bool) bool {
	for _, other := range w.open {
		if other != s && written(other) {
			return true
		}
	}
	return false
}

// key returns the expected error of a write that needs one key of a unique index.
func (w *isolation) key(s *side, written func(*side) bool, record func(*side) int32) error {
	switch {
	case w.others(s, written) && s.tx == nil:
		return errWaits
	case w.others(s, written):
		return errConflict
	case s.tx != nil && !written(s) && record(s) != record(w.all):
		return errConflict
	}
	return nil
}

func (w *isolation) value(s *side, v int32) error {
	return w.key(s, func(o *side) bool { return o.values[v] }, func(o *side) int32 { return o.record(v) })
}

// expect returns the expected error of a write.
func (w *isolation) expect(s *side, kind string, id, v int32) error {
	old, exists := s.docs[id]
	if kind != "insert" && !exists {
		return errNothing
	}
	if err := w.key(s, func(o *side) bool { return o.ids[id] }, func(o *side) int32 { return o.docs[id].record }); err != nil {
		return err
	}
	if kind == "insert" && exists {
		return errDuplicate
	}
	if kind != "delete" {
		if err := w.value(s, v); err != nil {
			return err
		}
		if holder := s.holder(v); holder >= 0 && holder != id {
			return errDuplicate
		}
	}
	if kind == "delete" || kind == "set" && old.v != v {
		if err := w.value(s, old.v); err != nil {
			return err
		}
	}
	if kind != "insert" && s.tx != nil && !s.ids[id] && w.all.docs[id].change != old.change {
		return errConflict
	}
	return nil
}

// apply applies a write to a side of the model.
func (w *isolation) apply(s *side, kind string, id, v int32) {
	w.count++
	old := s.docs[id]
	s.ids[id], s.values[v] = true, true
	switch kind {
	case "insert":
		s.docs[id] = version{v, w.count, w.count}
	case "set":
		s.values[old.v] = true
		s.docs[id] = version{v, old.record, w.count}
	default:
		delete(s.values, v)
		s.values[old.v] = true
		delete(s.docs, id)
	}
	s.ops++
}

func (w *isolation) write(s *side) {
	kind := rapid.SampledFrom([]string{"insert", "set", "set", "delete"}).Draw(w.t, "kind")
	id, v := rapid.Int32Range(0, 3).Draw(w.t, "id"), rapid.Int32Range(0, 4).Draw(w.t, "v")
	if kind == "delete" {
		v = -1
	}
	want := w.expect(s, kind, id, v)
	// A write that must wait ends with its context instead.
	ctx, cancel := context.WithCancelCause(context.Background())
	err := w.store.Do(ctx, s.tx, func(sw *store.Writer) error {
		cancel(errWaits)
		doc := bsonraw.MustMarshal(bson.D{{Key: "_id", Value: id}, {Key: "v", Value: v}})
		c := sw.Collection(ns)
		if kind == "insert" {
			return sw.Insert(ns, doc)
		}
		found, err := sw.Select(c, matcher(w.t, bson.D{{Key: "_id", Value: id}}), nil, store.Hint{}, 1)
		switch {
		case err != nil:
			return err
		case len(found) == 0:
			return errNothing
		case kind == "delete":
			return sw.Remove(c, found[0])
		}
		return sw.Replace(c, found[0], doc, nil)
	})
	if mongoerr.Has(err, mongoerr.InterruptedAtShutdown) {
		err = errWaits
	}
	code, coded := errors.AsType[*mongoerr.Error](want)
	switch {
	case want == nil && err == nil:
		w.apply(s, kind, id, v)
	case !errors.Is(err, want) && (!coded || !mongoerr.Has(err, code.Code)):
		w.t.Fatalf("%s of %d with %d, in a transaction: %t: %v, want %v", kind, id, v, s.tx != nil, err, want)
	case s.tx != nil && coded:
		w.end(s, false) // a session aborts after an error too
	}
}

// end commits or aborts a transaction.
func (w *isolation) end(s *side, commit bool) {
	w.open = slices.DeleteFunc(w.open, func(open *side) bool { return open == s })
	end := w.store.Log().End()
	if !commit {
		s.tx.Abort()
		if w.store.Log().End() != end {
			w.t.Fatal("an aborted transaction is in the log")
		}
		return
	}
	if err := s.tx.Commit(&oplog.Transaction{Number: 1}); err != nil {
		w.t.Fatal(err)
	}
	for id := range s.ids {
		if doc, there := s.docs[id]; there {
			w.all.docs[id] = doc
		} else {
			delete(w.all.docs, id)
		}
	}
	entries := make([]*oplog.Entry, s.ops+1)
	n, err := w.store.Log().Read(end, entries)
	if err != nil || n != s.ops {
		w.t.Fatalf("%d entries of %d operations (%v)", n, s.ops, err)
	}
	for i, e := range entries[:n] {
		if e.TS != entries[0].TS || int(e.Index) != i || e.Txn == nil {
			w.t.Fatalf("entry %d of a transaction is %+v", i, e)
		}
	}
}

// check compares all documents that a side sees with the model.
func (w *isolation) check(s *side) {
	rows, err := w.store.Open(context.Background(), s.tx, store.Query{NS: ns, Filter: matcher(w.t, bson.D{})})
	if err != nil {
		w.t.Fatal(err)
	}
	docs, err := rows.All(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	got, want := make(map[int32]int32), make(map[int32]int32)
	for _, doc := range docs {
		got[bson.Raw(doc).Lookup("_id").Int32()] = bson.Raw(doc).Lookup("v").Int32()
	}
	for id, doc := range s.docs {
		want[id] = doc.v
	}
	if !maps.Equal(got, want) || len(docs) != len(want) {
		w.t.Fatalf("sees %v, want %v, in a transaction: %v", got, want, s.tx != nil)
	}
}

// replayed returns the documents that result from the log.
func (w *isolation) replayed() map[int32]int32 {
	docs := make(map[int32]int32)
	for _, e := range w.store.Log().All() {
		switch e.Kind {
		case oplog.Insert, oplog.Replace:
			docs[bson.Raw(e.Key).Lookup("_id").Int32()] = bson.Raw(e.Doc).Lookup("v").Int32()
		case oplog.Delete:
			delete(docs, bson.Raw(e.Key).Lookup("_id").Int32())
		}
	}
	return docs
}

// For any interleaving of transactions and plain writes: each transaction sees its
// snapshot and its own writes. The second of two conflicting writes fails. A plain write
// waits for the transaction. The log contains each commit completely and nothing else.
func TestTransactionsAreIsolated(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &isolation{t: t, store: newStore(), all: &side{docs: map[int32]version{}, ids: map[int32]bool{}, values: map[int32]bool{}}}
		createIndex(t, w.store, bson.D{{Key: "v", Value: 1}}, true)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			s := w.all
			if len(w.open) > 0 {
				if i := rapid.IntRange(-1, len(w.open)-1).Draw(t, "who"); i >= 0 {
					s = w.open[i]
				}
			}
			switch action := rapid.IntRange(0, 9).Draw(t, "action"); {
			case action == 0 && len(w.open) < 3:
				w.open = append(w.open, &side{
					tx: w.store.Begin(), docs: maps.Clone(w.all.docs), ids: map[int32]bool{}, values: map[int32]bool{},
				})
			case action < 3 && s.tx != nil:
				w.end(s, action == 1)
			default:
				w.write(s)
			}
			w.check(w.all)
			for _, open := range w.open {
				w.check(open)
			}
			logged := w.replayed()
			for id, doc := range w.all.docs {
				if logged[id] != doc.v || len(logged) != len(w.all.docs) {
					t.Fatalf("the log says %v, want %v", logged, w.all.docs)
				}
			}
		}
	})
}
