package update

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
)

// push holds the values that $push or $addToSet adds, and the modifiers of $push.
type push struct {
	values   []bsonraw.Value
	slice    *int64
	position *int64
	sort     func(a, b bsonraw.Value) int
}

func compileArray(op *operation) (err error) {
	switch op.name {
	case "$push":
		op.apply = applyPush
		op.push, err = compilePush(op.operand, true)
	case "$addToSet":
		op.apply = applyAddToSet
		op.push, err = compilePush(op.operand, false)
	case "$pull":
		op.apply = applyPull
		op.pull, err = query.MatchValue(op.operand)
	case "$pullAll":
		op.apply = applyPull
		if op.operand.Type != bsoncore.TypeArray {
			return mongoerr.New(mongoerr.BadValue, "$pullAll requires an array argument but was given a %s", bsonraw.TypeName(op.operand.Type))
		}
		values := bsonraw.Elements(op.operand.Data)
		op.pull = func(v bsonraw.Value) (bool, error) {
			return slices.ContainsFunc(values, func(w bsonraw.Value) bool { return bsonraw.Equal(v, w) }), nil
		}
	}
	return err
}

func compilePush(operand bsonraw.Value, modifiers bool) (*push, error) {
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
		switch {
		case key == "$each":
		case !modifiers:
			return nil, mongoerr.New(mongoerr.BadValue, "Found unexpected fields after $each in $addToSet: %s", bsonraw.Format(operand))
		case key == "$slice" || key == "$position":
			if !whole || !bsonraw.IsNumber(v) {
				return nil, mongoerr.New(mongoerr.BadValue, "The value for %s must be an integer value but was given type: %s", key, bsonraw.TypeName(v.Type))
			}
			if key == "$slice" {
				p.slice = &n
			} else {
				p.position = &n
			}
		case key == "$sort":
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

// elements returns the array at the operation's path. found is nil if the path does not
// exist; last and depth are those of find.
func (t *target) elements(op operation) (found, last *node, depth int, values []bsonraw.Value, err error) {
	found, last, depth, err = t.find(op.path)
	if err != nil || found == nil {
		return found, last, depth, nil, err
	}
	v := found.current()
	if v.Type != bsoncore.TypeArray {
		return nil, nil, 0, nil, mongoerr.New(mongoerr.BadValue, "The field '%s' must be an array but is of type %s in document %s",
			strings.Join(op.path, "."), bsonraw.TypeName(v.Type), t.subject())
	}
	return found, last, depth, bsonraw.Elements(v.Data), nil
}

func applyPush(t *target, op operation) error {
	found, last, depth, values, err := t.elements(op)
	if err != nil {
		return err
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

func applyAddToSet(t *target, op operation) error {
	found, last, depth, values, err := t.elements(op)
	if err != nil {
		return err
	}
	old := len(values)
	values = slices.Clone(values)
	for _, v := range op.push.values {
		if !slices.ContainsFunc(values, func(w bsonraw.Value) bool { return bsonraw.Equal(v, w) }) {
			values = append(values, v)
		}
	}
	if found == nil {
		return t.create(op.path, last, depth, bsonraw.Array(values))
	}
	found.expand()
	for i, v := range values[old:] {
		found.children = append(found.children, element{node: leaf(v)})
		t.changed(append(slices.Clone(op.path), bsonraw.Index(old+i)))
	}
	return nil
}

func applyPull(t *target, op operation) error {
	found, _, _, values, err := t.elements(op)
	if err != nil || found == nil {
		if mongoerr.Has(err, mongoerr.PathNotViable) {
			return nil
		}
		return err
	}
	kept := []bsonraw.Value{}
	for _, v := range values {
		pulled, err := op.pull(v)
		if err != nil {
			return err
		}
		if !pulled {
			kept = append(kept, v)
		}
	}
	if len(kept) == len(values) {
		return nil
	}
	return t.put(op.path, bsonraw.Array(kept))
}

func applyPop(t *target, op operation) error {
	found, _, _, values, err := t.elements(op)
	if err != nil || found == nil || len(values) == 0 {
		return err
	}
	if n, _ := bsonraw.Int64(op.operand); n == 1 {
		values = values[:len(values)-1]
	} else {
		values = values[1:]
	}
	return t.put(op.path, bsonraw.Array(values))
}
