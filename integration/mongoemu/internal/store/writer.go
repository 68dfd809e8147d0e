package store

import (
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/update"
)

// Writer reads and writes while the exclusive lock is held, inside or outside a
// transaction. Each write happens completely or not at all.
type Writer struct {
	store *Store
	tx    *Tx
	// unchecked skips validators.
	unchecked bool
}

// BypassValidation makes the writer store documents that a validator would reject.
func (w *Writer) BypassValidation() { w.unchecked = true }

func (w *Writer) valid(c *Collection, doc, old []byte) error {
	if w.unchecked {
		return nil
	}
	return c.Options.valid(doc, old)
}

// storable returns an error if a document nests too deep, also if validators are bypassed.
func storable(doc []byte) error {
	if bsonraw.Deeper(doc, bsonraw.MaxStored) {
		return mongoerr.New(mongoerr.Overflow, "Document exceeds maximum nesting depth of %d", bsonraw.MaxStored)
	}
	return nil
}

// Collection returns a collection as the writer sees it; nil if it does not exist.
func (w *Writer) Collection(ns Namespace) *Collection {
	return (&Viewer{store: w.store, tx: w.tx}).Collection(ns)
}

// Now returns the current time for an update.
func (w *Writer) Now() update.Instant {
	t := w.store.now()
	return update.Instant{
		Milliseconds: t.UnixMilli(),
		Timestamp:    bsonraw.TimestampValue(bson.Timestamp{T: uint32(t.Unix()), I: 1}),
	}
}

// ensure returns a collection and creates it if it does not exist.
func (w *Writer) ensure(ns Namespace) (*Collection, error) {
	if c := w.Collection(ns); c != nil {
		return c, nil
	}
	if w.tx != nil {
		return w.tx.create(ns)
	}
	return w.Create(ns, nil)
}

// Insert adds a document. _id must be its first field. The store keeps the bytes.
func (w *Writer) Insert(ns Namespace, doc []byte) error {
	if len(doc) > update.MaxDocument {
		return mongoerr.New(mongoerr.BadValue, "object to insert too large. size in bytes: %d, max size: %d", len(doc), update.MaxDocument)
	}
	if err := storable(doc); err != nil {
		return err
	}
	c, err := w.ensure(ns)
	if err != nil {
		return err
	}
	if _, err := IDKey(doc); err != nil {
		return err
	}
	if err := w.valid(c, doc, nil); err != nil {
		return err
	}
	w.store.nextRecord++
	r := &Record{ID: w.store.nextRecord, Doc: doc}
	ks, err := c.keysOf(doc, r.ID)
	if err != nil {
		return err
	}
	if err := w.admit(c, r, ks, nil, nil); err != nil {
		return err
	}
	c.put(r, ks, nil, nil)
	w.record(c, op{kind: oplog.Insert, record: r})
	return nil
}

// Replace adds a new version of a record. description is nil for a replacement of the
// whole document.
func (w *Writer) Replace(c *Collection, old *Record, doc, description []byte) error {
	if err := storable(doc); err != nil {
		return err
	}
	if err := w.valid(c, doc, old.Doc); err != nil {
		return err
	}
	r := &Record{ID: old.ID, Doc: doc}
	oldKeys, err := c.keysOf(old.Doc, old.ID)
	if err != nil {
		return err
	}
	ks, err := c.keysOf(doc, r.ID)
	if err != nil {
		return err
	}
	if err := w.admit(c, r, ks, old, oldKeys); err != nil {
		return err
	}
	c.put(r, ks, old, oldKeys)
	kind := oplog.Update
	if description == nil {
		kind = oplog.Replace
	}
	w.record(c, op{kind: kind, record: r, description: description})
	return nil
}

// Remove deletes a record.
func (w *Writer) Remove(c *Collection, old *Record) error {
	ks, err := c.keysOf(old.Doc, old.ID)
	if err != nil {
		return err
	}
	if err := w.admit(c, nil, nil, old, ks); err != nil {
		return err
	}
	c.remove(old, ks)
	w.record(c, op{kind: oplog.Delete, record: old})
	return nil
}

// admit decides whether a write is allowed, and reserves its keys for a transaction. A
// unique key must not belong to another document, and nothing that the write touches may
// be reserved by another transaction.
func (w *Writer) admit(c *Collection, r *Record, ks keys, old *Record, oldKeys keys) error {
	var claims []string
	for i, x := range c.indexes {
		if !x.Unique {
			continue
		}
		if r != nil {
			for _, k := range ks[i] {
				if err := w.unclaimed(c, x, k); err != nil {
					return err
				}
				if holder, taken := x.tree.Get(k); taken && holder != r.ID {
					return x.duplicate(c.NS, r.Doc, k)
				}
				claims = append(claims, claim(c, x, k))
			}
		}
		if old != nil && (r == nil || !sameKeys(ks[i], oldKeys[i])) {
			for _, k := range oldKeys[i] {
				if err := w.unclaimed(c, x, k); err != nil {
					return err
				}
				claims = append(claims, claim(c, x, k))
			}
		}
	}
	if w.tx == nil {
		return nil
	}
	if err := w.tx.sameCatalog(c); err != nil {
		return err
	}
	if old != nil {
		if err := w.tx.unchanged(c, old); err != nil {
			return err
		}
	}
	for _, k := range claims {
		w.store.reserved[k] = w.tx
		w.tx.claims[k] = struct{}{}
	}
	return nil
}

// claim returns the name of an index key in the table of reservations.
func claim(c *Collection, x *Index, key string) string {
	return string(c.UUID[:]) + x.Name + "\x00" + key
}

// unclaimed returns an error if another transaction has reserved a key, or if the key
// changed its document after the transaction's snapshot.
func (w *Writer) unclaimed(c *Collection, x *Index, key string) error {
	if w.tx == nil && len(w.store.reserved) == 0 {
		return nil
	}
	owner := w.store.reserved[claim(c, x, key)]
	switch {
	case owner == w.tx && owner != nil:
		return nil
	case owner != nil && w.tx == nil:
		return errBlocked
	case owner != nil:
		return errWriteConflict()
	case w.tx == nil:
		return nil
	}
	return w.tx.sameHolder(c, x, key)
}

func errWriteConflict() error {
	return mongoerr.New(mongoerr.WriteConflict, "Caused by :: Write conflict during plan execution and yielding is disabled. :: Please retry your operation or multi-document transaction.")
}

// op is one change. A transaction keeps its changes until the commit.
type op struct {
	kind        oplog.Kind
	ns          Namespace
	record      *Record
	description []byte
}

// record publishes a change, or keeps it for the commit of the transaction.
func (w *Writer) record(c *Collection, o op) {
	o.ns = c.NS
	if w.tx != nil {
		w.tx.ops = append(w.tx.ops, o)
		return
	}
	e := w.store.entry(c, o)
	e.TS = w.store.clock.Next()
	w.store.publish([]*oplog.Entry{e}, []op{o})
}

func (s *Store) entry(c *Collection, o op) *oplog.Entry {
	e := &oplog.Entry{
		Kind: o.kind, DB: c.NS.DB, Coll: c.NS.Coll, UUID: c.UUID,
		Key: documentKey(o.record.Doc), Description: o.description, Wall: s.now().UnixMilli(),
	}
	if o.kind == oplog.Insert || o.kind == oplog.Replace {
		e.Doc = o.record.Doc
	}
	return e
}

// documentKey returns {_id: …} of a document.
func documentKey(doc []byte) []byte {
	id, _ := bsonraw.Lookup(doc, "_id")
	return bsonraw.NewBuilder(len(id.Data)+10).Value("_id", id).Bytes()
}

// Select returns up to limit matching records (0: all) in order, as the writer sees them.
func (w *Writer) Select(c *Collection, m *query.Matcher, order []KeyPart, hint Hint, limit int) ([]*Record, error) {
	plan, err := c.plan(m, order, 0, hint)
	if err != nil {
		return nil, err
	}
	var found []*Record
	var failed error
	s := scan{plan: plan}
	sorting := sorter{parts: order, keep: limit, by: m.Collation()}
	s.each(c, func(r *Record) bool {
		ok, err := m.Match(r.Doc)
		switch {
		case err != nil:
			failed = err
		case ok && !plan.Sorted:
			failed = sorting.add(r)
		case ok:
			found = append(found, r)
		}
		return failed == nil && (limit == 0 || len(found) < limit)
	})
	if failed != nil {
		return nil, failed
	}
	if !plan.Sorted {
		sorting.order()
		for _, row := range sorting.rows {
			found = append(found, row.rec)
		}
	}
	return found, nil
}

// Current returns the newest version of a record, or nil if the record was removed.
func (c *Collection) Current(r *Record) *Record {
	now, _ := c.records.Get(r.ID)
	return now
}

// Prepared returns a copy of a document as the store keeps it. _id is its first field; a
// missing _id becomes a new ObjectId. The current cluster time replaces empty timestamps
// in top-level fields.
func (s *Store) Prepared(doc []byte) ([]byte, error) {
	first, ready := true, true
	for it := bsonraw.NewIter(doc); it.Next() && ready; first = false {
		id := string(it.Key()) == "_id"
		ready = id == first && (id || !emptyTimestamp(it.Value()))
	}
	if ready && !first {
		return append([]byte(nil), doc...), nil
	}
	id, ok := bsonraw.Lookup(doc, "_id")
	if !ok {
		id = bsonraw.ObjectIDValue(bson.NewObjectID())
	}
	b := bsonraw.NewBuilder(len(doc)+17).Value("_id", id)
	met := false
	for it := bsonraw.NewIter(doc); it.Next(); {
		v := it.Value()
		switch {
		case string(it.Key()) != "_id":
			if emptyTimestamp(v) {
				v = bsonraw.TimestampValue(s.clock.Next())
			}
			b.Raw(it.Key(), v)
		case met:
			return nil, mongoerr.New(mongoerr.BadValue, "can't have multiple _id fields in one document")
		default:
			met = true
		}
	}
	return b.Bytes(), nil
}

// Prepared is [Store.Prepared].
func (w *Writer) Prepared(doc []byte) ([]byte, error) { return w.store.Prepared(doc) }

func emptyTimestamp(v bsonraw.Value) bool {
	return v.Type == bsoncore.TypeTimestamp && string(v.Data) == "\x00\x00\x00\x00\x00\x00\x00\x00"
}
