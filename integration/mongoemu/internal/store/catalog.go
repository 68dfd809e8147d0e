package store

import (
	"bytes"
	"strings"

	"github.com/tidwall/btree"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
)

func checkNamespace(ns Namespace) error {
	switch {
	case ns.DB == "" || len(ns.DB) > 63 || strings.ContainsAny(ns.DB, "/\\. \"$\x00"):
		return mongoerr.New(mongoerr.InvalidNamespace, "Invalid database name: '%s'", ns.DB)
	case ns.Coll == "" || strings.Contains(ns.Coll, "$") || strings.Contains(ns.Coll, "\x00") ||
		strings.HasPrefix(ns.Coll, ".") || strings.HasSuffix(ns.Coll, ".") || len(ns.String()) > 255:
		return mongoerr.New(mongoerr.InvalidNamespace, "Invalid collection name: %s", ns.Coll)
	case ns.DB == "local":
		return mongoerr.Lacking("writes to the database local")
	}
	return nil
}

// Create makes a collection.
func (w *Writer) Create(ns Namespace, options []byte) (*Collection, error) {
	if err := checkNamespace(ns); err != nil {
		return nil, err
	}
	if err := w.untouched(ns); err != nil {
		return nil, err
	}
	if w.store.collections[ns] != nil {
		return nil, mongoerr.New(mongoerr.NamespaceExists, "Collection %s already exists.", ns)
	}
	c := newCollection(ns, newUUID(), options)
	w.store.add(c)
	return c, nil
}

// add enters a new collection.
func (s *Store) add(c *Collection) {
	s.collections[c.NS] = c
	s.keep(frameCollection, func(b *bsonraw.Builder) { writeCollection(b, c) })
	s.noop("create " + c.NS.String())
}

// untouched waits for the transactions that have written to a collection, before
// it is created, dropped, renamed or indexed.
func (w *Writer) untouched(ns Namespace) error {
	for tx := range w.store.open {
		if tx.created[ns] != nil {
			return errBlocked
		}
		for _, o := range tx.ops {
			if o.ns == ns {
				return errBlocked
			}
		}
	}
	return nil
}

// Drop removes a collection; false where there is none.
func (w *Writer) Drop(ns Namespace) (*Collection, error) {
	c := w.store.collections[ns]
	if c == nil {
		return nil, nil
	}
	if err := w.untouched(ns); err != nil {
		return nil, err
	}
	delete(w.store.collections, ns)
	w.store.append(&oplog.Entry{Kind: oplog.Drop, DB: ns.DB, Coll: ns.Coll, UUID: c.UUID})
	return c, nil
}

// DropDatabase removes all collections of a database.
func (w *Writer) DropDatabase(db string) (existed bool, err error) {
	names := (&Viewer{store: w.store}).Names(db)
	for _, n := range names {
		if err := w.untouched(Namespace{db, n}); err != nil {
			return false, err
		}
	}
	for _, n := range names {
		if _, err := w.Drop(Namespace{db, n}); err != nil {
			return false, err
		}
	}
	if len(names) > 0 {
		w.store.append(&oplog.Entry{Kind: oplog.DropDatabase, DB: db})
	}
	return len(names) > 0, nil
}

// Rename gives a collection another name, in place of target where dropTarget
// allows it.
func (w *Writer) Rename(from, to Namespace, dropTarget bool) error {
	c := w.store.collections[from]
	target := w.store.collections[to]
	switch {
	case c == nil:
		return mongoerr.New(mongoerr.NamespaceNotFound, "Source collection %s does not exist", from)
	case from == to:
		return mongoerr.New(mongoerr.IllegalOperation, "Can't rename a collection to itself")
	case target != nil && !dropTarget:
		return mongoerr.New(mongoerr.NamespaceExists, "target namespace exists")
	}
	if err := checkNamespace(to); err != nil {
		return err
	}
	for _, ns := range []Namespace{from, to} {
		if err := w.untouched(ns); err != nil {
			return err
		}
	}
	e := &oplog.Entry{Kind: oplog.Rename, DB: from.DB, Coll: from.Coll, UUID: c.UUID, ToDB: to.DB, ToColl: to.Coll}
	if target != nil {
		e.DropTarget = &target.UUID
	}
	w.store.rename(from, to)
	w.store.append(e)
	return nil
}

func (s *Store) rename(from, to Namespace) {
	renamed := *s.collections[from]
	renamed.NS = to
	delete(s.collections, from)
	s.collections[to] = &renamed
}

// IndexSpec asks for an index.
type IndexSpec struct {
	Name        string
	Pattern     []byte
	Unique      bool
	Sparse      bool
	ExpireAfter *int32
}

func (x *Index) same(spec IndexSpec) bool {
	return x.Unique == spec.Unique && x.Sparse == spec.Sparse && sameExpiry(x.ExpireAfter, spec.ExpireAfter)
}

func sameExpiry(a, b *int32) bool {
	return (a == nil) == (b == nil) && (a == nil || *a == *b)
}

// CreateIndex builds an index over what is there; false where an equal one
// exists already.
func (w *Writer) CreateIndex(c *Collection, spec IndexSpec) (created bool, err error) {
	parts, err := ParseKeyPattern(spec.Pattern)
	if err != nil {
		return false, err
	}
	if done, err := c.compatible(spec); done || err != nil {
		return false, err
	}
	if spec.ExpireAfter != nil && len(parts) > 1 {
		return false, mongoerr.New(mongoerr.CannotCreateIndex, "TTL indexes are single-field indexes, compound indexes do not support TTL. Index spec: %s", bsonraw.FormatDocument(spec.Pattern))
	}
	if err := w.untouched(c.NS); err != nil {
		return false, err
	}
	next, err := c.with(spec)
	if err != nil {
		return false, err
	}
	w.store.collections[c.NS] = next
	w.store.keep(frameIndex, func(b *bsonraw.Builder) { writeIndex(b, c.NS, next.index(spec.Name)) })
	w.store.noop("createIndexes " + c.NS.String())
	return true, nil
}

// with is the collection with one more index, built over what is there.
func (c *Collection) with(spec IndexSpec) (*Collection, error) {
	parts, err := ParseKeyPattern(spec.Pattern)
	if err != nil {
		return nil, err
	}
	x := &Index{
		Name: spec.Name, Parts: parts, Pattern: bytes.Clone(spec.Pattern),
		Unique: spec.Unique, Sparse: spec.Sparse, ExpireAfter: spec.ExpireAfter,
		tree: btree.NewMap[string, uint64](treeDegree),
	}
	for it, ok := c.records.Iter(), true; ok; {
		if ok = it.Next(); !ok {
			break
		}
		r := it.Value()
		ks, err := x.entries(r.Doc, r.ID)
		if err != nil {
			return nil, err
		}
		for _, k := range ks {
			if _, taken := x.tree.Get(k); taken {
				return nil, x.duplicate(c.NS, r.Doc, k)
			}
			x.tree.Set(k, r.ID)
		}
	}
	next := *c
	next.indexes = append(append([]*Index(nil), c.indexes...), x)
	return &next, nil
}

// without is the collection without an index.
func (c *Collection) without(name string) *Collection {
	next := *c
	next.indexes = nil
	for _, x := range c.indexes {
		if x.Name != name {
			next.indexes = append(next.indexes, x)
		}
	}
	return &next
}

// compatible looks for the index among those that exist.
func (c *Collection) compatible(spec IndexSpec) (exists bool, err error) {
	for _, x := range c.indexes {
		samePattern := bsonraw.CompareDocuments(x.Pattern, spec.Pattern) == 0
		switch {
		case x.Name == "_id_" && samePattern:
			return true, nil
		case x.Name == spec.Name && samePattern && x.same(spec):
			return true, nil
		case x.Name == spec.Name && samePattern:
			return false, mongoerr.New(mongoerr.IndexOptionsConflict, "Index with name: %s already exists with different options", spec.Name)
		case x.Name == spec.Name:
			return false, mongoerr.New(mongoerr.IndexKeySpecsConflict, "An existing index has the same name as the requested index. When index names are not specified, they are auto generated and can cause conflicts. Please refer to our documentation. Requested index: %s, existing index: %s",
				bsonraw.FormatDocument(spec.Pattern), bsonraw.FormatDocument(x.Spec(c.NS)))
		case samePattern && x.Sparse == spec.Sparse && x.Unique == spec.Unique:
			return false, mongoerr.New(mongoerr.IndexOptionsConflict, "Index already exists with a different name: %s", x.Name)
		}
	}
	return false, nil
}

// DropIndex removes an index by name.
func (w *Writer) DropIndex(c *Collection, name string) error {
	if name == "_id_" {
		return mongoerr.New(mongoerr.InvalidOptions, "cannot drop _id index")
	}
	if c.index(name) == nil {
		return mongoerr.New(mongoerr.IndexNotFound, "index not found with name [%s]", name)
	}
	if err := w.untouched(c.NS); err != nil {
		return err
	}
	w.store.collections[c.NS] = c.without(name)
	w.store.keep(frameUnindex, func(b *bsonraw.Builder) {
		b.String("db", c.NS.DB).String("coll", c.NS.Coll).String("name", name)
	})
	w.store.noop("dropIndexes " + c.NS.String())
	return nil
}
