package store

import (
	"strings"

	"github.com/tidwall/btree"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// Namespace names a collection.
type Namespace struct{ DB, Coll string }

// String is the dotted form.
func (n Namespace) String() string { return n.DB + "." + n.Coll }

// Record is one version of a document. It is never modified: a new version is a
// new record under the same ID.
type Record struct {
	ID  uint64
	Doc []byte
}

// Collection is a collection's documents and indexes, shared or of one
// transaction.
type Collection struct {
	NS      Namespace
	UUID    [16]byte
	Options *Options
	records *btree.Map[uint64, *Record]
	indexes []*Index
	bytes   int64
}

const treeDegree = 32

func newCollection(ns Namespace, uuid [16]byte, options *Options) *Collection {
	id := &Index{Name: "_id_", Parts: []KeyPart{{Field: "_id", Path: []string{"_id"}}}, Unique: true, Pattern: idPattern, Collation: options.DefaultCollation()}
	id.tree = btree.NewMap[string, uint64](treeDegree)
	return &Collection{
		NS: ns, UUID: uuid, Options: options,
		records: btree.NewMap[uint64, *Record](treeDegree),
		indexes: []*Index{id},
	}
}

var idPattern = bsonraw.NewBuilder(16).Int32("_id", 1).Bytes()

// snapshot is a copy that shares all nodes until one side writes.
func (c *Collection) snapshot() *Collection {
	s := *c
	s.records = c.records.Copy()
	s.indexes = make([]*Index, len(c.indexes))
	for i, x := range c.indexes {
		y := *x
		y.tree = x.tree.Copy()
		s.indexes[i] = &y
	}
	return &s
}

// Len is the number of documents.
func (c *Collection) Len() int { return c.records.Len() }

// Bytes is the size of all documents.
func (c *Collection) Bytes() int64 { return c.bytes }

// Indexes are the collection's indexes, the one on _id first.
func (c *Collection) Indexes() []*Index { return c.indexes }

func (c *Collection) index(name string) *Index {
	for _, x := range c.indexes {
		if x.Name == name {
			return x
		}
	}
	return nil
}

func (c *Collection) byKey(idKey string) *Record {
	rid, ok := c.indexes[0].tree.Get(idKey)
	if !ok {
		return nil
	}
	r, _ := c.records.Get(rid)
	return r
}

// keys are the entries of a document in each index.
type keys [][]string

// keysOf computes a document's index entries and checks its _id.
func (c *Collection) keysOf(doc []byte, rid uint64) (keys, error) {
	ks := make(keys, len(c.indexes))
	for i, x := range c.indexes {
		var err error
		if ks[i], err = x.entries(doc, rid); err != nil {
			return nil, err
		}
	}
	return ks, nil
}

// IDKey is the key of a document's _id, which must be there and of a type that
// may be one.
func IDKey(doc []byte) (string, error) {
	id, ok := bsonraw.Lookup(doc, "_id")
	if !ok {
		return "", mongoerr.New(mongoerr.InternalError, "document without _id")
	}
	switch id.Type {
	case bsoncore.TypeArray, bsoncore.TypeRegex, bsoncore.TypeUndefined:
		return "", mongoerr.New(mongoerr.InvalidIDField, "The '_id' value cannot be of type %s", bsonraw.TypeName(id.Type))
	case bsoncore.TypeEmbeddedDocument:
		for it := bsonraw.NewIter(id.Data); it.Next(); {
			if strings.HasPrefix(string(it.Key()), "$") {
				return "", mongoerr.New(mongoerr.DollarPrefixedFieldName, "_id fields may not contain '$'-prefixed fields: %s is not valid for storage.", it.Key())
			}
		}
	}
	key, err := bsonraw.AppendKey(make([]byte, 0, 32), id)
	if err != nil {
		return "", mongoerr.Lacking("this _id: %v", err)
	}
	return string(key), nil
}

// IDKey is the key of a document's _id in this collection, whose collation may hold
// different strings for equal.
func (c *Collection) IDKey(doc []byte) (string, error) {
	key, err := IDKey(doc)
	if err != nil || c.Options.DefaultCollation() == nil {
		return key, err
	}
	id, _ := bsonraw.Lookup(doc, "_id")
	folded, err := bsonraw.AppendKey(nil, c.Options.DefaultCollation().Value(id))
	return string(folded), err
}

// put enters a record under new keys in place of an old version.
func (c *Collection) put(r *Record, ks keys, old *Record, oldKeys keys) {
	c.records.Set(r.ID, r)
	c.bytes += int64(len(r.Doc))
	if old != nil {
		c.bytes -= int64(len(old.Doc))
	}
	for i, x := range c.indexes {
		if old != nil {
			if sameKeys(oldKeys[i], ks[i]) {
				continue
			}
			for _, k := range oldKeys[i] {
				x.tree.Delete(k)
			}
		}
		for _, k := range ks[i] {
			x.tree.Set(k, r.ID)
		}
	}
}

func (c *Collection) remove(r *Record, ks keys) {
	c.records.Delete(r.ID)
	c.bytes -= int64(len(r.Doc))
	for i, x := range c.indexes {
		for _, k := range ks[i] {
			x.tree.Delete(k)
		}
	}
}

func sameKeys(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
