package projection

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

type kind byte

const (
	include kind = iota
	exclude
	computed
	nested
)

// tree describes how to transform the fields of one document.
type tree struct {
	// keep copies the fields that no child names.
	keep bool
	// inPlace puts a computed field at the position of the field it replaces, instead of
	// at the end.
	inPlace  bool
	children []*child
}

type child struct {
	name string
	kind kind
	e    expr.Expr
	sub  *tree
}

func (t *tree) find(name []byte) *child {
	for _, c := range t.children {
		if c.name == string(name) {
			return c
		}
	}
	return nil
}

// add adds a field at a path. full is the whole dotted path, for errors.
func (t *tree) add(path []string, full string, leaf child) error {
	name := path[0]
	switch {
	case name == "":
		return mongoerr.New(40353, "FieldPath must not end with a '.'. or be empty: '%s'", full)
	case strings.HasPrefix(name, "$"):
		return mongoerr.Lacking("the projection path %q", full)
	}
	c := t.find([]byte(name))
	if len(path) == 1 {
		if c != nil {
			return mongoerr.New(31250, "Path collision at %s", full)
		}
		leaf.name = name
		t.children = append(t.children, &leaf)
		return nil
	}
	if c == nil {
		c = &child{name: name, kind: nested, sub: &tree{keep: t.keep, inPlace: t.inPlace}}
		t.children = append(t.children, c)
	}
	if c.kind != nested {
		return mongoerr.New(31249, "Path collision at %s remaining portion %s", full, strings.Join(path[1:], "."))
	}
	return c.sub.add(path[1:], full, leaf)
}

// apply writes the fields of doc that remain, and the computed fields. Expressions are
// evaluated on root, the whole document.
func (t *tree) apply(b *bsonraw.Builder, doc, root []byte, vars expr.Vars) error {
	var seenSmall [16]bool
	seen := seenSmall[:]
	if len(t.children) > len(seen) {
		seen = make([]bool, len(t.children))
	}
	for it := bsonraw.NewIter(doc); it.Next(); {
		i := -1
		for j, c := range t.children {
			if c.name == string(it.Key()) {
				i = j
				break
			}
		}
		if i < 0 {
			if t.keep {
				b.Raw(it.Key(), it.Value())
			}
			continue
		}
		c := t.children[i]
		switch c.kind {
		case include:
			b.Raw(it.Key(), it.Value())
		case exclude:
		case computed:
			if t.inPlace {
				seen[i] = true
				v, err := c.e.Eval(root, vars)
				if err != nil {
					return err
				}
				b.Value(c.name, v)
			}
		case nested:
			seen[i] = true
			v, err := c.sub.value(it.Value(), root, vars)
			if err != nil {
				return err
			}
			b.Value(c.name, v)
		}
	}
	return t.appendComputed(b, seen, root, vars)
}

// appendComputed appends the computed fields that are not marked in seen.
func (t *tree) appendComputed(b *bsonraw.Builder, seen []bool, root []byte, vars expr.Vars) error {
	for i, c := range t.children {
		if seen[i] {
			continue
		}
		switch {
		case c.kind == computed:
			v, err := c.e.Eval(root, vars)
			if err != nil {
				return err
			}
			b.Value(c.name, v)
		case c.kind == nested && c.sub.computes():
			v, err := c.sub.value(bsonraw.Missing, root, vars)
			if err != nil {
				return err
			}
			b.Value(c.name, v)
		}
	}
	return nil
}

func (t *tree) computes() bool {
	for _, c := range t.children {
		if c.kind == computed || c.kind == nested && c.sub.computes() {
			return true
		}
	}
	return false
}

// value applies the tree to a field's value: to a document, or to each element of an
// array. Any other value is replaced if the tree computes fields, kept if keep is set,
// and removed otherwise.
func (t *tree) value(v bsonraw.Value, root []byte, vars expr.Vars) (bsonraw.Value, error) {
	switch {
	case v.Type == bsoncore.TypeEmbeddedDocument:
		b := bsonraw.NewBuilder(len(v.Data))
		if err := t.apply(b, v.Data, root, vars); err != nil {
			return bsonraw.Missing, err
		}
		return bsonraw.DocumentValue(b.Bytes()), nil
	case v.Type == bsoncore.TypeArray:
		elements := []bsonraw.Value{}
		for it := bsonraw.NewIter(v.Data); it.Next(); {
			e, err := t.value(it.Value(), root, vars)
			if err != nil {
				return e, err
			}
			if !bsonraw.IsMissing(e) {
				elements = append(elements, e)
			}
		}
		return bsonraw.Array(elements), nil
	case t.computes():
		b := bsonraw.NewBuilder(64)
		if err := t.appendComputed(b, make([]bool, len(t.children)), root, vars); err != nil {
			return bsonraw.Missing, err
		}
		return bsonraw.DocumentValue(b.Bytes()), nil
	case t.keep:
		return v, nil
	}
	return bsonraw.Missing, nil
}
