package query

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// compileDocument compiles the conditions of a whole document. top allows the operators
// that may only stand at the top of a filter.
func compileDocument(filter []byte, top bool) (*And, error) {
	and := &And{}
	for it := bsonraw.NewIter(filter); it.Next(); {
		key := string(it.Key())
		if !strings.HasPrefix(key, "$") {
			if err := compileField(and, key, it.Value()); err != nil {
				return nil, err
			}
			continue
		}
		if err := compileTop(and, key, it.Value(), top); err != nil {
			return nil, err
		}
	}
	return and, nil
}

func compileTop(and *And, key string, v bsonraw.Value, top bool) error {
	switch key {
	case "$and", "$or", "$nor":
		children, err := compileList(key, v, top)
		if err != nil {
			return err
		}
		switch key {
		case "$and":
			for _, c := range children {
				and.Children = append(and.Children, c)
			}
		case "$or":
			or := &Or{}
			for _, c := range children {
				or.Children = append(or.Children, c)
			}
			and.Children = append(and.Children, or)
		default:
			for _, c := range children {
				and.Children = append(and.Children, &not{c})
			}
		}
		return nil
	case "$comment":
		return nil
	case "$expr":
		if !top {
			return mongoerr.New(mongoerr.BadValue, "$expr can only be applied to the top-level document")
		}
		e, err := expr.Compile(v)
		if err != nil {
			return err
		}
		and.Children = append(and.Children, &expression{e})
		return nil
	case "$jsonSchema":
		n, err := compileSchema(v)
		if err != nil {
			return err
		}
		and.Children = append(and.Children, n)
		return nil
	case "$where", "$text", "$sampleRate", "$alwaysTrue", "$alwaysFalse":
		return mongoerr.Lacking("the query operator %s", key)
	}
	return mongoerr.New(mongoerr.BadValue, "unknown top level operator: %s. If you have a field name that starts with a '$' symbol, consider using $getField or $setField.", key)
}

func compileList(key string, v bsonraw.Value, top bool) ([]*And, error) {
	if v.Type != bsoncore.TypeArray {
		return nil, mongoerr.New(mongoerr.BadValue, "%s must be an array", key)
	}
	var nodes []*And
	for it := bsonraw.NewIter(v.Data); it.Next(); {
		if it.Value().Type != bsoncore.TypeEmbeddedDocument {
			return nil, mongoerr.New(mongoerr.BadValue, "$or/$and/$nor entries need to be full objects")
		}
		n, err := compileDocument(it.Value().Data, top)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	if len(nodes) == 0 {
		return nil, mongoerr.New(mongoerr.BadValue, "$and/$or/$nor must be a nonempty array")
	}
	return nodes, nil
}

// isOperators reports whether a field's condition is a document of operators instead of a
// value to compare with.
func isOperators(v bsonraw.Value) bool {
	if v.Type != bsoncore.TypeEmbeddedDocument {
		return false
	}
	it := bsonraw.NewIter(v.Data)
	if !it.Next() {
		return false
	}
	switch key := string(it.Key()); key {
	case "$ref", "$id", "$db":
		return false
	default:
		return strings.HasPrefix(key, "$")
	}
}

func compileField(and *And, field string, v bsonraw.Value) error {
	path := ParsePath(field)
	switch {
	case v.Type == bsoncore.TypeRegex:
		r, err := regexValue(v)
		if err != nil {
			return err
		}
		and.Children = append(and.Children, &leaf{path: path, expand: true, test: r.holds})
		return nil
	case v.Type == bsoncore.TypeUndefined:
		return mongoerr.New(mongoerr.BadValue, "cannot compare to undefined")
	case !isOperators(v):
		and.Children = append(and.Children, newCompare(path, EQ, v))
		return nil
	}
	for it := bsonraw.NewIter(v.Data); it.Next(); {
		n, err := compileOperator(path, string(it.Key()), it.Value(), v.Data)
		if err != nil {
			return err
		}
		if n != nil {
			and.Children = append(and.Children, n)
		}
	}
	return nil
}

// compileOperator compiles one operator on a field. siblings is the document that
// contains the operator. It returns a nil node if another operator handles this one, as
// $regex handles $options.
func compileOperator(path Path, op string, v bsonraw.Value, siblings []byte) (Node, error) {
	switch op {
	case "$eq":
		return newCompare(path, EQ, v), nil
	case "$ne":
		if v.Type == bsoncore.TypeRegex {
			return nil, mongoerr.New(mongoerr.BadValue, "Can't have regex as arg to $ne.")
		}
		return &not{newCompare(path, EQ, v)}, nil
	case "$gt", "$gte", "$lt", "$lte":
		return compileOrder(path, op, v)
	case "$in", "$nin":
		n, err := compileIn(path, op, v)
		if err != nil {
			return nil, err
		}
		if op == "$nin" {
			return &not{n}, nil
		}
		return n, nil
	case "$exists":
		present := &leaf{path: path, test: func(v bsonraw.Value) bool { return !bsonraw.IsMissing(v) }, source: []byte("$exists"), exists: true}
		if bsonraw.Truthy(v) {
			return present, nil
		}
		return &not{present}, nil
	case "$type":
		return compileType(path, v)
	case "$size":
		return compileSize(path, v)
	case "$mod":
		return compileMod(path, v)
	case "$all":
		return compileAll(path, v)
	case "$elemMatch":
		return compileElemMatch(path, v)
	case "$not":
		return compileNot(path, v)
	case "$regex":
		return compileRegex(path, v, siblings)
	case "$options":
		if _, ok := bsonraw.Lookup(siblings, "$regex"); !ok {
			return nil, mongoerr.New(mongoerr.BadValue, "$options needs a $regex")
		}
		return nil, nil
	case "$comment":
		return nil, nil
	case "$near", "$nearSphere", "$geoWithin", "$geoIntersects", "$within", "$maxDistance", "$minDistance",
		"$bitsAllSet", "$bitsAllClear", "$bitsAnySet", "$bitsAnyClear":
		return nil, mongoerr.Lacking("the query operator %s", op)
	}
	return nil, mongoerr.New(mongoerr.BadValue, "unknown operator: %s", op)
}

func compileOrder(path Path, op string, v bsonraw.Value) (Node, error) {
	if v.Type == bsoncore.TypeRegex {
		return nil, mongoerr.New(mongoerr.BadValue, "Can't have RegEx as arg to predicate over field '%s'.", path)
	}
	ops := map[string]Op{"$gt": GT, "$gte": GTE, "$lt": LT, "$lte": LTE}
	return newCompare(path, ops[op], v), nil
}

func compileIn(path Path, op string, v bsonraw.Value) (Node, error) {
	if v.Type != bsoncore.TypeArray {
		return nil, mongoerr.New(mongoerr.BadValue, "%s needs an array", op)
	}
	var values []bsonraw.Value
	var regexes []*regex
	for it := bsonraw.NewIter(v.Data); it.Next(); {
		e := it.Value()
		if isOperators(e) {
			return nil, mongoerr.New(mongoerr.BadValue, "cannot nest $ under %s", op)
		}
		if e.Type == bsoncore.TypeRegex {
			r, err := regexValue(e)
			if err != nil {
				return nil, err
			}
			regexes = append(regexes, r)
			continue
		}
		values = append(values, e)
	}
	return newIn(path, values, regexes), nil
}

func compileNot(path Path, v bsonraw.Value) (Node, error) {
	if v.Type == bsoncore.TypeRegex {
		r, err := regexValue(v)
		if err != nil {
			return nil, err
		}
		return &not{&leaf{path: path, expand: true, test: r.holds}}, nil
	}
	if v.Type != bsoncore.TypeEmbeddedDocument {
		return nil, mongoerr.New(mongoerr.BadValue, "$not needs a regex or a document")
	}
	if bsonraw.Empty(v.Data) {
		return nil, mongoerr.New(mongoerr.BadValue, "$not cannot be empty")
	}
	and := &And{}
	for it := bsonraw.NewIter(v.Data); it.Next(); {
		op := string(it.Key())
		if !strings.HasPrefix(op, "$") {
			return nil, mongoerr.New(mongoerr.BadValue, "unknown operator: %s", op)
		}
		n, err := compileOperator(path, op, it.Value(), v.Data)
		if err != nil {
			return nil, err
		}
		if n != nil {
			and.Children = append(and.Children, n)
		}
	}
	return &not{and}, nil
}
