package update

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// push holds the values that $push adds, and its modifiers.
type push struct {
	values   []bsonraw.Value
	slice    *int64
	position *int64
	sort     func(a, b bsonraw.Value) int
}

func compilePush(operand bsonraw.Value) (*push, error) {
	each, ok := bsonraw.Missing, false
	if operand.Type == bsoncore.TypeEmbeddedDocument {
		each, ok = bsonraw.Lookup(operand.Data, "$each")
	}
	if !ok {
		return &push{values: []bsonraw.Value{operand}}, nil
	}
	if each.Type != bsoncore.TypeArray {
		return nil, mongoerr.New(mongoerr.BadValue, "The argument to $each in $push must be an array but it was of type: %s", bsonraw.TypeName(each.Type))
	}
	p := &push{values: bsonraw.Elements(each.Data)}
	for it := bsonraw.NewIter(operand.Data); it.Next(); {
		key, v := string(it.Key()), it.Value()
		n, whole := bsonraw.Int64(v)
		switch key {
		case "$each":
		case "$slice", "$position":
			if !whole || !bsonraw.IsNumber(v) {
				return nil, mongoerr.New(mongoerr.BadValue, "The value for %s must be an integer value but was given type: %s", key, bsonraw.TypeName(v.Type))
			}
			if key == "$slice" {
				p.slice = &n
			} else {
				p.position = &n
			}
		case "$sort":
			var err error
			if p.sort, err = compilePushSort(v); err != nil {
				return nil, err
			}
		default:
			return nil, mongoerr.New(mongoerr.BadValue, "Unrecognized clause in $push: %s", key)
		}
	}
	return p, nil
}

func compilePushSort(v bsonraw.Value) (func(a, b bsonraw.Value) int, error) {
	direction := func(v bsonraw.Value) (int, error) {
		if n, ok := bsonraw.Int64(v); ok && (n == 1 || n == -1) {
			return int(n), nil
		}
		return 0, mongoerr.New(mongoerr.BadValue, "The $sort element value must be either 1 or -1")
	}
	if v.Type != bsoncore.TypeEmbeddedDocument {
		d, err := direction(v)
		return func(a, b bsonraw.Value) int { return d * bsonraw.Compare(a, b) }, err
	}
	type part struct {
		path []string
		d    int
	}
	var parts []part
	for it := bsonraw.NewIter(v.Data); it.Next(); {
		d, err := direction(it.Value())
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{strings.Split(string(it.Key()), "."), d})
	}
	if len(parts) == 0 {
		return nil, mongoerr.New(mongoerr.BadValue, "The $sort pattern is empty when it should be a set of fields.")
	}
	at := func(v bsonraw.Value, path []string) bsonraw.Value {
		if v.Type != bsoncore.TypeEmbeddedDocument {
			return bsonraw.Null
		}
		found, ok := bsonraw.LookupPath(v.Data, path...)
		if !ok {
			return bsonraw.Null
		}
		return found
	}
	return func(a, b bsonraw.Value) int {
		for _, p := range parts {
			if c := p.d * bsonraw.Compare(at(a, p.path), at(b, p.path)); c != 0 {
				return c
			}
		}
		return 0
	}, nil
}

func applyPush(t *target, op operation) error {
	found, last, depth, err := t.find(op.path)
	if err != nil {
		return err
	}
	var values []bsonraw.Value
	if found != nil {
		v := found.current()
		if v.Type != bsoncore.TypeArray {
			return mongoerr.New(mongoerr.BadValue, "The field '%s' must be an array but is of type %s in document %s",
				strings.Join(op.path, "."), bsonraw.TypeName(v.Type), t.subject())
		}
		values = bsonraw.Elements(v.Data)
	}
	p := op.push
	at := len(values)
	if p.position != nil {
		n := int(*p.position)
		if n < 0 {
			n = max(0, len(values)+n)
		}
		at = min(n, len(values))
	}
	appended := at == len(values) && p.slice == nil && p.sort == nil
	old := len(values)
	values = slices.Insert(slices.Clone(values), at, p.values...)
	if p.sort != nil {
		slices.SortStableFunc(values, p.sort)
	}
	if p.slice != nil {
		values = sliced(values, *p.slice)
	}
	switch {
	case found == nil:
		return t.create(op.path, last, depth, bsonraw.Array(values))
	case appended:
		found.expand()
		for i, v := range p.values {
			found.children = append(found.children, element{node: leaf(v)})
			t.changed(append(slices.Clone(op.path), bsonraw.Index(old+i)))
		}
		return nil
	}
	return t.put(op.path, bsonraw.Array(values))
}

func sliced(values []bsonraw.Value, n int64) []bsonraw.Value {
	switch {
	case n >= 0:
		return values[:min(int64(len(values)), n)]
	case -n < int64(len(values)):
		return values[int64(len(values))+n:]
	}
	return values
}
