package store

import (
	"errors"
	"slices"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
)

// Tx is a transaction. Only one goroutine of its session uses it at a time. The store's
// lock guards the fields that others read.
type Tx struct {
	store       *Store
	collections map[Namespace]*Collection
	created     map[Namespace]*Collection
	ops         []op
	claims      map[string]struct{}
	state       txState
}

type txState byte

const (
	txOpen txState = iota
	txCommitted
	txAborted
)

// Begin opens a transaction on a snapshot of all collections.
func (s *Store) Begin() *Tx {
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := &Tx{
		store:       s,
		collections: make(map[Namespace]*Collection, len(s.collections)),
		created:     map[Namespace]*Collection{},
		claims:      map[string]struct{}{},
	}
	for ns, c := range s.collections {
		tx.collections[ns] = c.snapshot()
	}
	return tx
}

// usable returns an error if the transaction has ended. A nil Tx is always usable.
func (tx *Tx) usable() error {
	if tx == nil || tx.state == txOpen {
		return nil
	}
	return mongoerr.New(mongoerr.NoSuchTransaction, "Transaction has been aborted.")
}

// reservedName is the key of a collection's name among the reservations.
func reservedName(ns Namespace) string { return "\x00" + ns.String() }

// create creates a collection that others see after the commit.
func (tx *Tx) create(ns Namespace) (*Collection, error) {
	if err := CheckNamespace(ns); err != nil {
		return nil, err
	}
	name := reservedName(ns)
	if owner := tx.store.reserved[name]; owner != nil && owner != tx {
		return nil, errWriteConflict()
	}
	if tx.store.collections[ns] != nil {
		return nil, errWriteConflict()
	}
	tx.store.reserved[name] = tx
	tx.claims[name] = struct{}{}
	c := newCollection(ns, newUUID(), nil)
	tx.collections[ns] = c
	tx.created[ns] = c
	return c, nil
}

// unchanged reserves a document for the transaction. It returns a WriteConflict if
// another transaction has reserved the document, or if it changed after the transaction's
// snapshot.
func (tx *Tx) unchanged(c *Collection, old *Record) error {
	if tx.created[c.NS] != nil {
		return nil
	}
	if slices.ContainsFunc(tx.ops, func(o op) bool { return o.record == old }) {
		return nil
	}
	shared := tx.store.collections[c.NS]
	if shared == nil || shared.UUID != c.UUID {
		return errWriteConflict()
	}
	key, err := c.IDKey(old.Doc)
	if err != nil {
		return err
	}
	id := c.indexes[0]
	switch owner := tx.store.reserved[claim(c, id, key)]; {
	case owner == tx:
	case owner != nil:
		return errWriteConflict()
	default:
		if now, _ := shared.records.Get(old.ID); now != old {
			return errWriteConflict()
		}
	}
	tx.store.reserved[claim(c, id, key)] = tx
	tx.claims[claim(c, id, key)] = struct{}{}
	return nil
}

// sameCatalog returns an error if a collection's options or indexes changed after the
// transaction's snapshot.
func (tx *Tx) sameCatalog(c *Collection) error {
	shared := tx.store.collections[c.NS]
	if tx.created[c.NS] != nil {
		return nil
	}
	same := shared != nil && shared.UUID == c.UUID && shared.Options == c.Options && slices.EqualFunc(shared.indexes, c.indexes, func(a, b *Index) bool {
		return a.Name == b.Name && slices.Equal(a.Pattern, b.Pattern)
	})
	if same {
		return nil
	}
	return mongoerr.New(mongoerr.SnapshotUnavailable, "Unable to read from a snapshot due to pending collection catalog changes; please retry the operation. Collection: %s", c.NS)
}

// sameHolder returns a WriteConflict if a unique key does not belong to the same document
// as in the transaction's snapshot.
func (tx *Tx) sameHolder(c *Collection, x *Index, key string) error {
	if tx.created[c.NS] != nil {
		return nil
	}
	shared := tx.store.collections[c.NS]
	if shared == nil || shared.UUID != c.UUID {
		return errWriteConflict()
	}
	y := shared.index(x.Name)
	if y == nil {
		return nil
	}
	mine, here := x.tree.Get(key)
	theirs, there := y.tree.Get(key)
	if here != there || mine != theirs {
		return errWriteConflict()
	}
	return nil
}

// Commit applies the transaction to the shared collections under one cluster time. A
// transaction that wrote no document does not appear in the log as a transaction.
func (tx *Tx) Commit(by *oplog.Transaction) error {
	s := tx.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(s.intact(), tx.usable()); err != nil {
		return err
	}
	for ns, c := range tx.created {
		s.add(newCollection(ns, c.UUID, nil))
	}
	if len(tx.ops) > 0 {
		if err := tx.apply(by); err != nil {
			return err
		}
	}
	tx.end(txCommitted)
	return s.flush()
}

func (tx *Tx) apply(by *oplog.Transaction) error {
	s := tx.store
	ts := s.clock.Next()
	entries := make([]*oplog.Entry, len(tx.ops))
	for i, o := range tx.ops {
		c := s.collections[o.ns]
		if err := c.redo(o); err != nil {
			return err
		}
		e := s.entry(c, o)
		e.TS, e.Index, e.Txn = ts, int32(i), by
		entries[i] = e
	}
	s.publish(entries, tx.ops)
	return nil
}

// redo repeats a change of the transaction on the shared collection.
func (c *Collection) redo(o op) error {
	var oldKeys, ks keys
	var err error
	old := c.Current(o.record)
	if old != nil {
		if oldKeys, err = c.keysOf(old.Doc, old.ID); err != nil {
			return err
		}
	}
	if o.kind == oplog.Delete {
		if old != nil {
			c.remove(old, oldKeys)
		}
		return nil
	}
	if ks, err = c.keysOf(o.record.Doc, o.record.ID); err != nil {
		return err
	}
	c.put(o.record, ks, old, oldKeys)
	return nil
}

// Abort discards the transaction. It does nothing if the transaction has ended.
func (tx *Tx) Abort() {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	if tx.state == txOpen {
		tx.end(txAborted)
	}
}

// end releases the transaction's reservations and wakes the writes that wait for them.
func (tx *Tx) end(state txState) {
	s := tx.store
	tx.state = state
	for k := range tx.claims {
		delete(s.reserved, k)
	}
	s.locks.end(tx)
	tx.collections, tx.created, tx.ops, tx.claims = nil, nil, nil, nil
	close(s.ended)
	s.ended = make(chan struct{})
}

// Open reports whether the transaction has neither committed nor aborted.
func (tx *Tx) Open() bool {
	tx.store.mu.RLock()
	defer tx.store.mu.RUnlock()
	return tx.state == txOpen
}
