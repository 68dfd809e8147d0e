package store

import (
	"strings"

	"github.com/tidwall/btree"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// Namespace is the name of a collection.
type Namespace struct{ DB, Coll string }

// String returns the dotted form.
func (n Namespace) String() string { return n.DB + "." + n.Coll }

// Record is one version of a document. It is never modified. A new version is a new
// record with the same ID.
type Record struct {
	ID  uint64
	Doc []byte
}

// Collection holds a collection's documents and indexes. It is the shared version or a
// transaction's own copy.
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

// snapshot returns a copy-on-write copy.
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

// Len returns the number of documents.
func (c *Collection) Len() int { return c.records.Len() }

// Each visits all documents in the order in which they were inserted. They must not be
// modified.
func (c *Collection) Each(visit func(document []byte)) {
	c.records.Scan(func(_ uint64, r *Record) bool {
		visit(r.Doc)
		return true
	})
}

// Bytes returns the size of all documents in bytes.
func (c *Collection) Bytes() int64 { return c.bytes }

// Indexes returns the indexes of the collection, with the index on _id first.
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

// keys are the entries of a document, one list per index.
type keys [][]string

// keysOf returns a document's entries in all indexes.
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

// IDKey returns the key of a document's _id. It returns an error if _id is missing or its
// type is not allowed.
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

// IDKey returns the key of a document's _id in this collection. The collection's
// collation can treat different strings as equal.
func (c *Collection) IDKey(doc []byte) (string, error) {
	key, err := IDKey(doc)
	if err != nil || c.Options.DefaultCollation() == nil {
		return key, err
	}
	id, _ := bsonraw.Lookup(doc, "_id")
	folded, err := bsonraw.AppendKey(nil, c.Options.DefaultCollation().Value(id))
	return string(folded), err
}

// put adds a record with its keys. It replaces the old version, if old is not nil.
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
