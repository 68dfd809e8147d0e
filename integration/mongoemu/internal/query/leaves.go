package query

import (
	"math"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

var typeAliases = map[string]bsoncore.Type{
	"double": bsoncore.TypeDouble, "string": bsoncore.TypeString, "object": bsoncore.TypeEmbeddedDocument,
	"array": bsoncore.TypeArray, "binData": bsoncore.TypeBinary, "undefined": bsoncore.TypeUndefined,
	"objectId": bsoncore.TypeObjectID, "bool": bsoncore.TypeBoolean, "date": bsoncore.TypeDateTime,
	"null": bsoncore.TypeNull, "regex": bsoncore.TypeRegex, "dbPointer": bsoncore.TypeDBPointer,
	"javascript": bsoncore.TypeJavaScript, "symbol": bsoncore.TypeSymbol,
	"javascriptWithScope": bsoncore.TypeCodeWithScope, "int": bsoncore.TypeInt32,
	"timestamp": bsoncore.TypeTimestamp, "long": bsoncore.TypeInt64, "decimal": bsoncore.TypeDecimal128,
	"minKey": bsoncore.TypeMinKey, "maxKey": bsoncore.TypeMaxKey,
}

func compileType(path Path, v bsonraw.Value) (Node, error) {
	wanted := []bsonraw.Value{v}
	if v.Type == bsoncore.TypeArray {
		if wanted = bsonraw.Elements(v.Data); len(wanted) == 0 {
			return nil, mongoerr.New(mongoerr.FailedToParse, "%s must match at least one type", path)
		}
	}
	types := map[bsoncore.Type]bool{}
	number := false
	for _, w := range wanted {
		if w.Type == bsoncore.TypeString {
			alias := string(bsonraw.Text(w))
			if alias == "number" {
				number = true
				continue
			}
			t, ok := typeAliases[alias]
			if !ok {
				return nil, mongoerr.New(mongoerr.BadValue, "Unknown type name alias: %s", alias)
			}
			types[t] = true
			continue
		}
		code, ok := bsonraw.Int64(w)
		switch {
		case !bsonraw.IsNumber(w):
			return nil, mongoerr.New(mongoerr.TypeMismatch, "type must be represented as a number or a string")
		case ok && code == -1:
			types[bsoncore.TypeMinKey] = true
		case ok && code == 127:
			types[bsoncore.TypeMaxKey] = true
		case ok && code >= 1 && code <= 19:
			types[bsoncore.Type(code)] = true
		default:
			return nil, mongoerr.New(mongoerr.BadValue, "Invalid numerical type code: %s", bsonraw.Format(w))
		}
	}
	return &leaf{path: path, expand: true, source: append([]byte("$type "), v.Data...), test: func(v bsonraw.Value) bool {
		return types[v.Type] || number && bsonraw.IsNumber(v)
	}}, nil
}

func compileSize(path Path, v bsonraw.Value) (Node, error) {
	n, ok := bsonraw.Int64(v)
	switch {
	case !bsonraw.IsNumber(v) || !ok:
		return nil, mongoerr.New(mongoerr.BadValue, "Failed to parse $size. Expected an integer in: %s", bsonraw.Format(v))
	case n < 0:
		return nil, mongoerr.New(mongoerr.BadValue, "Failed to parse $size. Expected a non-negative number in: %d", n)
	}
	return &leaf{path: path, test: func(v bsonraw.Value) bool {
		return v.Type == bsoncore.TypeArray && int64(bsonraw.Len(v.Data)) == n
	}}, nil
}

func compileMod(path Path, v bsonraw.Value) (Node, error) {
	if v.Type != bsoncore.TypeArray {
		return nil, mongoerr.New(mongoerr.BadValue, "malformed mod, needs to be an array")
	}
	args := bsonraw.Elements(v.Data)
	switch {
	case len(args) < 2:
		return nil, mongoerr.New(mongoerr.BadValue, "malformed mod, not enough elements")
	case len(args) > 2:
		return nil, mongoerr.New(mongoerr.BadValue, "malformed mod, too many elements")
	}
	divisor, ok1 := truncated(args[0])
	remainder, ok2 := truncated(args[1])
	switch {
	case !ok1:
		return nil, mongoerr.New(mongoerr.BadValue, "malformed mod, divisor not a number")
	case !ok2:
		return nil, mongoerr.New(mongoerr.BadValue, "malformed mod, remainder not a number")
	case divisor == 0:
		return nil, mongoerr.New(mongoerr.BadValue, "divisor cannot be 0")
	}
	return &leaf{path: path, expand: true, test: func(v bsonraw.Value) bool {
		n, ok := truncated(v)
		return ok && n%divisor == remainder
	}}, nil
}

// truncated returns a number without its fraction. ok is false if it does not fit an
// int64.
func truncated(v bsonraw.Value) (int64, bool) {
	if n, ok := bsonraw.Int64(v); ok {
		return n, true
	}
	if !bsonraw.IsNumber(v) {
		return 0, false
	}
	f := math.Trunc(bsonraw.Float64(v))
	if math.IsNaN(f) || f < -(1<<63) || f >= 1<<63 {
		return 0, false
	}
	return int64(f), true
}

func compileAll(path Path, v bsonraw.Value) (Node, error) {
	if v.Type != bsoncore.TypeArray {
		return nil, mongoerr.New(mongoerr.BadValue, "$all needs an array")
	}
	and := &And{}
	for it := bsonraw.NewIter(v.Data); it.Next(); {
		e := it.Value()
		if e.Type == bsoncore.TypeRegex {
			r, err := regexValue(e)
			if err != nil {
				return nil, err
			}
			and.Children = append(and.Children, &leaf{path: path, expand: true, test: r.holds})
			continue
		}
		if isOperators(e) {
			operand, ok := bsonraw.Lookup(e.Data, "$elemMatch")
			if !ok || bsonraw.Len(e.Data) != 1 {
				return nil, mongoerr.New(mongoerr.BadValue, "no $ expressions in $all")
			}
			n, err := compileElemMatch(path, operand)
			if err != nil {
				return nil, err
			}
			and.Children = append(and.Children, n)
			continue
		}
		and.Children = append(and.Children, newCompare(path, EQ, e))
	}
	if len(and.Children) == 0 {
		return &Or{}, nil // an empty $all matches nothing
	}
	return and, nil
}

func compileElemMatch(path Path, v bsonraw.Value) (Node, error) {
	if v.Type != bsoncore.TypeEmbeddedDocument {
		return nil, mongoerr.New(mongoerr.BadValue, "$elemMatch needs an Object")
	}
	if isOperators(v) && !startsWithLogic(v.Data) {
		child := &And{}
		if err := compileField(child, elementKey, v); err != nil {
			return nil, err
		}
		return &elemMatch{path: path, child: child, value: true}, nil
	}
	child, err := compileDocument(v.Data, false)
	if err != nil {
		return nil, err
	}
	return &elemMatch{path: path, child: child}, nil
}

// startsWithLogic distinguishes {$elemMatch: {$or: […]}}, a filter over documents, from
// an $elemMatch with bare operators such as {$gt: 1}.
func startsWithLogic(doc []byte) bool {
	it := bsonraw.NewIter(doc)
	it.Next()
	switch string(it.Key()) {
	case "$and", "$or", "$nor", "$where":
		return true
	}
	return false
}
