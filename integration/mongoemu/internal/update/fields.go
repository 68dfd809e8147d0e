package update

import (
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// find follows path as far as it exists. It returns the node at the end of path. If there
// is none, found is nil, last is the last existing node, and depth is how many names of
// path lead to it.
func (t *target) find(path []string) (found, last *node, depth int, err error) {
	n := t.root
	for i, key := range path {
		if !n.expand() {
			return nil, n, i, mongoerr.New(mongoerr.PathNotViable, "Cannot create field '%s' in element {%s: %s}", key, path[i-1], bsonraw.Format(n.current()))
		}
		if n.array {
			if _, ok := position(key); !ok {
				return nil, n, i, mongoerr.New(mongoerr.PathNotViable, "Cannot create field '%s' in element {%s: %s}", key, path[i-1], bsonraw.Format(n.current()))
			}
		}
		c := n.child(key)
		if c == nil {
			return nil, n, i, nil
		}
		n = c
	}
	return n, nil, len(path), nil
}

// maxPadding bounds the array position that an update may create. The missing elements
// before it become null.
const maxPadding = 1_500_000

// create creates the rest of path below last, with v at its end.
func (t *target) create(path []string, last *node, depth int, v bsonraw.Value) error {
	if last.array {
		if i, _ := position(path[depth]); i > maxPadding {
			return mongoerr.New(mongoerr.BadValue, "can't backfill more than %d elements", maxPadding)
		}
	}
	n := leaf(v)
	for i := len(path) - 1; i > depth; i-- {
		n = &node{open: true, children: []element{{path[i], n}}}
	}
	last.attach(path[depth], n)
	t.changed(path[:depth+1])
	return nil
}

// put sets the value at a path, unless the path already holds the same bytes.
func (t *target) put(path []string, v bsonraw.Value) error {
	found, last, depth, err := t.find(path)
	switch {
	case err != nil:
		return err
	case found == nil:
		return t.create(path, last, depth, v)
	case bsonraw.Identical(found.current(), v):
		return nil
	}
	*found = node{value: v}
	t.changed(path)
	return nil
}

func applySet(t *target, op operation) error { return t.put(op.path, op.operand) }

func applyUnset(t *target, op operation) error {
	found, _, _, err := t.find(op.path)
	if err != nil || found == nil {
		return nil //nolint:nilerr // a path that cannot exist has nothing to remove
	}
	t.detach(op.path)
	return nil
}

func (t *target) detach(path []string) {
	parent, _, _, _ := t.find(path[:len(path)-1])
	parent.expand()
	parent.detach(path[len(path)-1])
	if parent.array {
		t.changed(path)
		return
	}
	t.removed(path)
}

// subject describes the document in an error, as the server does.
func (t *target) subject() string {
	id, ok := bsonraw.Lookup(t.doc, "_id")
	if !ok {
		return "{no id}"
	}
	return "{_id: " + bsonraw.Format(id) + "}"
}

func applyInc(t *target, op operation) error {
	found, last, depth, err := t.find(op.path)
	if err != nil {
		return err
	}
	if found == nil {
		return t.create(op.path, last, depth, op.operand)
	}
	old := found.current()
	if !bsonraw.IsNumber(old) {
		return mongoerr.New(mongoerr.TypeMismatch, "Cannot apply $inc to a value of non-numeric type. %s has the field '%s' of non-numeric type %s",
			t.subject(), op.path[len(op.path)-1], bsonraw.TypeName(old.Type))
	}
	if old.Type == bsoncore.TypeDecimal128 || op.operand.Type == bsoncore.TypeDecimal128 {
		return mongoerr.Lacking("$inc of Decimal128")
	}
	v, ok := expr.Apply(expr.Add, old, op.operand)
	if !ok {
		return mongoerr.New(mongoerr.BadValue, "Failed to apply $inc operations to current value (%s) for document %s", bsonraw.Format(old), t.subject())
	}
	return t.put(op.path, v)
}

func applyExtreme(t *target, op operation) error {
	found, last, depth, err := t.find(op.path)
	switch {
	case err != nil:
		return err
	case found == nil:
		return t.create(op.path, last, depth, op.operand)
	}
	c := bsonraw.Compare(op.operand, found.current())
	if op.name == "$min" && c < 0 || op.name == "$max" && c > 0 {
		return t.put(op.path, op.operand)
	}
	return nil
}

func applyCurrentDate(t *target, op operation) error {
	if op.operand.Type == bsoncore.TypeEmbeddedDocument {
		if kind, _ := bsonraw.Lookup(op.operand.Data, "$type"); string(bsonraw.Text(kind)) == "timestamp" {
			return t.put(op.path, t.context.Now.Timestamp)
		}
	}
	return t.put(op.path, bsonraw.DateValue(t.context.Now.Milliseconds))
}
