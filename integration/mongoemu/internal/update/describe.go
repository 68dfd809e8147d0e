package update

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
)

// target is a document that is being updated, and its changes so far.
type target struct {
	root    *node
	doc     []byte
	context Context
	changes []change
}

// change is a path that was set or removed.
type change struct {
	path    []string
	removed bool
}

func (t *target) changed(path []string) {
	t.changes = append(t.changes, change{path: slices.Clone(path)})
}

func (t *target) removed(path []string) {
	t.changes = append(t.changes, change{path: slices.Clone(path), removed: true})
}

// describe returns the updateDescription. It omits a change below another changed path,
// because the description of that path covers it.
func (t *target) describe() []byte {
	updated, removed := bsonraw.NewBuilder(64), []string{}
	for i, c := range t.changes {
		if t.covered(i) {
			continue
		}
		dotted := strings.Join(c.path, ".")
		if c.removed {
			removed = append(removed, dotted)
			continue
		}
		n := t.root
		for _, key := range c.path {
			n.expand()
			if n = n.child(key); n == nil {
				break
			}
		}
		if n != nil {
			updated.Value(dotted, n.current())
		}
	}
	return description(updated.Bytes(), removed)
}

func (t *target) covered(i int) bool {
	for j, other := range t.changes {
		p, q := t.changes[i].path, other.path
		if j == i || len(q) > len(p) || !slices.Equal(q, p[:len(q)]) {
			continue
		}
		if len(q) < len(p) || j < i {
			return true
		}
	}
	return false
}

func description(updated []byte, removed []string) []byte {
	b := bsonraw.NewBuilder(len(updated) + 64)
	b.Document("updatedFields", updated)
	b.Strings("removedFields", removed...)
	return b.Bytes()
}

// diff returns the updateDescription from before to after. It compares embedded documents
// field by field; a changed array appears whole.
func diff(before, after []byte) []byte {
	updated, removed := bsonraw.NewBuilder(64), []string{}
	removed = compare(updated, removed, "", before, after)
	return description(updated.Bytes(), removed)
}

func compare(updated *bsonraw.Builder, removed []string, prefix string, before, after []byte) []string {
	for it := bsonraw.NewIter(after); it.Next(); {
		key := string(it.Key())
		old, had := bsonraw.Lookup(before, key)
		switch {
		case had && bsonraw.Identical(old, it.Value()):
		case had && old.Type == bsoncore.TypeEmbeddedDocument && it.Value().Type == bsoncore.TypeEmbeddedDocument:
			removed = compare(updated, removed, prefix+key+".", old.Data, it.Value().Data)
		default:
			updated.Value(prefix+key, it.Value())
		}
	}
	for it := bsonraw.NewIter(before); it.Next(); {
		if _, has := bsonraw.Lookup(after, string(it.Key())); !has {
			removed = append(removed, prefix+string(it.Key()))
		}
	}
	return removed
}
