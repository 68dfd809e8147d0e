package store

import (
	"bytes"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// IndexChange is a change of one index by collMod. Name or Pattern identifies the index.
// nil fields do not change.
type IndexChange struct {
	Name        string
	Pattern     []byte
	ExpireAfter *int32
	Hidden      *bool
}

// Modify implements collMod. set contains new values of the collection's options. change
// is nil if no index changes. before and after are the old and new version of the changed
// index, or nil.
func (w *Writer) Modify(ns Namespace, set []byte, change *IndexChange) (before, after *Index, err error) {
	c := w.store.collections[ns]
	if c == nil {
		return nil, nil, mongoerr.New(mongoerr.NamespaceNotFound, "ns does not exist")
	}
	if bsonraw.Empty(set) && change == nil {
		return nil, nil, nil
	}
	next := *c
	if !bsonraw.Empty(set) {
		if next.Options, err = c.Options.with(ns, set); err != nil {
			return nil, nil, err
		}
	}
	if change != nil {
		i, err := c.changed(change)
		if err != nil {
			return nil, nil, err
		}
		before = c.indexes[i]
		after = before.altered(change)
		next.indexes = append([]*Index(nil), c.indexes...)
		next.indexes[i] = after
	}
	w.store.collections[ns] = &next
	w.store.keep(frameAltered, func(b *bsonraw.Builder) { writeAltered(b, &next, after) })
	w.store.noop("collMod " + ns.String())
	return before, after, nil
}

// changed returns the position of the index that a change identifies.
func (c *Collection) changed(change *IndexChange) (int, error) {
	found := -1
	for i, x := range c.indexes {
		switch {
		case change.Name != "" && x.Name == change.Name:
			return i, nil
		case change.Name != "" || !bytes.Equal(x.Pattern, change.Pattern) && bsonraw.CompareDocuments(x.Pattern, change.Pattern) != 0:
		case found >= 0:
			return 0, mongoerr.New(ambiguousIndexKeyPattern, "index keyPattern %s matches %d indexes, must use index name. Conflicting indexes: %s, %s",
				bsonraw.FormatDocument(change.Pattern), 2, c.indexes[found].Name, x.Name)
		default:
			found = i
		}
	}
	switch {
	case found >= 0:
		return found, nil
	case change.Name != "":
		return 0, mongoerr.New(mongoerr.IndexNotFound, "cannot find index %s for ns %s", change.Name, c.NS)
	}
	return 0, mongoerr.New(mongoerr.IndexNotFound, "cannot find index %s for ns %s", bsonraw.FormatDocument(change.Pattern), c.NS)
}

// ambiguousIndexKeyPattern is the server's AmbiguousIndexKeyPattern.
const ambiguousIndexKeyPattern mongoerr.Code = 181

func (x *Index) altered(change *IndexChange) *Index {
	y := *x
	if change.ExpireAfter != nil {
		y.ExpireAfter = change.ExpireAfter
	}
	if change.Hidden != nil {
		y.Hidden = *change.Hidden
	}
	return &y
}
