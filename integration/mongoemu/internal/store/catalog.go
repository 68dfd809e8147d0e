package store

import (
	"strings"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
)

// CheckDatabase returns an error if a database name is invalid.
func CheckDatabase(name string) error {
	if name == "" || len(name) > 63 || strings.ContainsAny(name, "/\\. \"$\x00") {
		return mongoerr.New(mongoerr.InvalidNamespace, "Invalid database name: '%s'", name)
	}
	return nil
}

// CheckNamespace returns an error if clients must not write to a collection.
func CheckNamespace(ns Namespace) error {
	if err := CheckDatabase(ns.DB); err != nil {
		return err
	}
	switch {
	case ns.Coll == "" || strings.Contains(ns.Coll, "$") || strings.Contains(ns.Coll, "\x00") ||
		strings.HasPrefix(ns.Coll, ".") || strings.HasSuffix(ns.Coll, ".") || len(ns.String()) > 255:
		return mongoerr.New(mongoerr.InvalidNamespace, "Invalid collection name: %s", ns.Coll)
	case strings.HasPrefix(ns.Coll, "system."):
		return mongoerr.New(mongoerr.InvalidNamespace, "cannot write to '%s'", ns)
	case ns.DB == "local":
		return mongoerr.Lacking("writes to the database local")
	}
	return nil
}

// ErrExists returns the error of a command that would create an existing collection.
func ErrExists(ns Namespace) error {
	return mongoerr.New(mongoerr.NamespaceExists, "Collection %s already exists.", ns)
}

// Create creates a collection. For this and the other changes of collections, the caller
// holds the [Exclusive] lock, except for a collection that an insert creates.
func (w *Writer) Create(ns Namespace, options *Options) (*Collection, error) {
	if err := CheckNamespace(ns); err != nil {
		return nil, err
	}
	if w.store.collections[ns] != nil {
		return nil, ErrExists(ns)
	}
	if w.store.reserved[reservedName(ns)] != nil {
		return nil, errBlocked // A transaction has created it.
	}
	c := newCollection(ns, newUUID(), options)
	w.store.add(c)
	return c, nil
}

// add adds a new collection to the catalog.
func (s *Store) add(c *Collection) {
	s.collections[c.NS] = c
	s.keep(frameCollection, func(b *bsonraw.Builder) { writeCollection(b, c) })
	s.noop("create " + c.NS.String())
}

// Drop drops a collection. It returns nil if there is none.
func (w *Writer) Drop(ns Namespace) (*Collection, error) {
	c := w.store.collections[ns]
	if c == nil {
		return nil, nil
	}
	delete(w.store.collections, ns)
	w.store.append(&oplog.Entry{Kind: oplog.Drop, DB: ns.DB, Coll: ns.Coll, UUID: c.UUID})
	return c, nil
}

// DropDatabase drops all collections of a database.
func (w *Writer) DropDatabase(db string) (existed bool, err error) {
	names := (&Viewer{store: w.store}).Names(db)
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

// Rename renames a collection. It replaces an existing target only if dropTarget is set.
func (w *Writer) Rename(from, to Namespace, dropTarget bool) error {
	c := w.store.collections[from]
	target := w.store.collections[to]
	if err := CheckNamespace(to); err != nil {
		return err
	}
	switch {
	case from == to:
		return mongoerr.New(mongoerr.IllegalOperation, "Can't rename a collection to itself")
	case c == nil:
		return mongoerr.New(mongoerr.NamespaceNotFound, "Source collection %s does not exist", from)
	case target != nil && !dropTarget:
		return mongoerr.New(mongoerr.NamespaceExists, "target namespace exists")
	case from.DB != to.DB: // the server would copy the documents and assign a new UUID
		return mongoerr.Lacking("a rename from one database to another")
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
