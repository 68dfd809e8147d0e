package store

import (
	"bytes"
	"slices"

	"github.com/tidwall/btree"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
)

// IndexSpec describes an index to create.
type IndexSpec struct {
	Name        string
	Pattern     []byte
	Unique      bool
	Sparse      bool
	Hidden      bool
	ExpireAfter *int32
	// Partial is the filter of the documents to index; nil for all documents.
	Partial []byte
	// Collation is the collation of the index if Collated is set; nil is then the simple
	// collation. Otherwise the index has the collation of its collection.
	Collation *collation.Collation
	Collated  bool
}

func (x *Index) same(spec IndexSpec) bool {
	return x.Unique == spec.Unique && x.Sparse == spec.Sparse && x.Hidden == spec.Hidden &&
		sameExpiry(x.ExpireAfter, spec.ExpireAfter) && x.alike(spec)
}

// alike reports whether x has the partial filter and the collation of spec. Two indexes
// on the same fields may differ in these.
func (x *Index) alike(spec IndexSpec) bool {
	return bytes.Equal(x.Partial, spec.Partial) && collation.Equal(x.Collation, spec.Collation)
}

func sameExpiry(a, b *int32) bool {
	return (a == nil) == (b == nil) && (a == nil || *a == *b)
}

// maxIndexes is the number of indexes that a collection can have. It is the server's
// limit.
const maxIndexes = 64

// Indexed is the result of [Writer.CreateIndexes].
type Indexed struct {
	// Before and After are the numbers of indexes before and after, including the index
	// on _id.
	Before, After int
	// NewCollection says that CreateIndexes created the collection.
	NewCollection bool
}

// HasIndexes reports whether a collection has all these indexes already.
func (v *Viewer) HasIndexes(ns Namespace, specs ...IndexSpec) bool {
	c := v.Collection(ns)
	return c != nil && c.hasAll(specs)
}

// CreateIndexes builds all missing indexes or, on an error, none.
func (w *Writer) CreateIndexes(ns Namespace, specs ...IndexSpec) (Indexed, error) {
	c := w.Collection(ns)
	if c != nil && c.hasAll(specs) {
		return Indexed{Before: len(c.indexes), After: len(c.indexes)}, nil
	}
	done := Indexed{NewCollection: c == nil}
	if done.NewCollection {
		c = newCollection(ns, newUUID(), nil)
	}
	next := c
	for _, spec := range specs {
		var err error
		if next, err = next.extended(spec); err != nil {
			return Indexed{}, err
		}
	}
	if done.NewCollection {
		w.store.add(c)
	}
	done.Before, done.After = len(c.indexes), len(next.indexes)
	w.store.collections[ns] = next
	for _, x := range next.indexes[done.Before:] {
		w.store.keep(frameIndex, func(b *bsonraw.Builder) { writeIndex(b, ns, x) })
		w.store.noop("createIndexes " + ns.String())
	}
	return done, nil
}

// hasAll reports whether the collection already has all the indexes.
func (c *Collection) hasAll(specs []IndexSpec) bool {
	for _, spec := range specs {
		if exists, err := c.compatible(c.inherited(spec)); !exists || err != nil {
			return false
		}
	}
	return true
}

// inherited returns spec with the collection's collation if spec has none.
func (c *Collection) inherited(spec IndexSpec) IndexSpec {
	if !spec.Collated {
		spec.Collation, spec.Collated = c.Options.DefaultCollation(), true
	}
	return spec
}

// extended returns the collection with the index added, or unchanged if it already has an
// equal index.
func (c *Collection) extended(spec IndexSpec) (*Collection, error) {
	parts, err := ParseKeyPattern(spec.Pattern)
	if err != nil {
		return nil, err
	}
	spec = c.inherited(spec)
	if exists, err := c.compatible(spec); exists || err != nil {
		return c, err
	}
	isHashed := slices.ContainsFunc(parts, func(p KeyPart) bool { return p.Hashed })
	switch {
	case isHashed && spec.Unique:
		return nil, mongoerr.New(16764, "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.")
	case isHashed && spec.ExpireAfter != nil:
		return nil, mongoerr.Lacking("a hashed index that expires documents")
	case spec.Partial != nil && spec.Sparse:
		return nil, mongoerr.New(mongoerr.CannotCreateIndex, "cannot mix \"partialFilterExpression\" and \"sparse\" options")
	case spec.ExpireAfter != nil && len(parts) > 1:
		return nil, mongoerr.New(mongoerr.CannotCreateIndex, "TTL indexes are single-field indexes, compound indexes do not support TTL. Index spec: %s", bsonraw.FormatDocument(spec.Pattern))
	case len(c.indexes) == maxIndexes:
		return nil, mongoerr.New(mongoerr.CannotCreateIndex, "add index fails, too many indexes for %s key:%s", c.NS, bsonraw.FormatDocument(spec.Pattern))
	}
	return c.with(spec)
}

// with returns the collection with a new index, built from the existing documents.
func (c *Collection) with(spec IndexSpec) (*Collection, error) {
	parts, err := ParseKeyPattern(spec.Pattern)
	if err != nil {
		return nil, err
	}
	x := &Index{
		Name: spec.Name, Parts: parts, Pattern: bytes.Clone(spec.Pattern),
		Unique: spec.Unique, Sparse: spec.Sparse, Hidden: spec.Hidden, ExpireAfter: spec.ExpireAfter,
		Partial: bytes.Clone(spec.Partial), Collation: spec.Collation,
		tree: btree.NewMap[string, uint64](treeDegree),
	}
	if x.Partial != nil {
		if x.partial, err = query.CompilePartial(x.Partial, x.Collation); err != nil {
			return nil, err
		}
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

// without returns the collection without an index.
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

// compatible reports whether the index already exists. It returns an error if spec
// conflicts with an existing index.
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
		case samePattern && x.Sparse == spec.Sparse && x.Unique == spec.Unique && x.alike(spec):
			return false, mongoerr.New(mongoerr.IndexOptionsConflict, "Index already exists with a different name: %s", x.Name)
		}
	}
	return false, nil
}

// DropIndex drops an index by name.
func (w *Writer) DropIndex(c *Collection, name string) error {
	if name == "_id_" {
		return mongoerr.New(mongoerr.InvalidOptions, "cannot drop _id index")
	}
	if c.index(name) == nil {
		return mongoerr.New(mongoerr.IndexNotFound, "index not found with name [%s]", name)
	}
	w.store.collections[c.NS] = c.without(name)
	w.store.keep(frameUnindex, func(b *bsonraw.Builder) {
		b.String("db", c.NS.DB).String("coll", c.NS.Coll).String("name", name)
	})
	w.store.noop("dropIndexes " + c.NS.String())
	return nil
}
