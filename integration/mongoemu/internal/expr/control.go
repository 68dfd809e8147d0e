package expr

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// logic is $and or $or. It stops at the first operand that decides the result.
type logic struct {
	items []Expr
	any   bool
}

func (l logic) Eval(doc []byte, vars Vars) (bsonraw.Value, error) {
	for _, e := range l.items {
		v, err := e.Eval(doc, vars)
		if err != nil {
			return v, err
		}
		if bsonraw.Truthy(v) == l.any {
			return bsonraw.BoolValue(l.any), nil
		}
	}
	return bsonraw.BoolValue(!l.any), nil
}

type cond struct{ test, then, otherwise Expr }

func (c cond) Eval(doc []byte, vars Vars) (bsonraw.Value, error) {
	v, err := c.test.Eval(doc, vars)
	if err != nil {
		return v, err
	}
	if bsonraw.Truthy(v) {
		return c.then.Eval(doc, vars)
	}
	return c.otherwise.Eval(doc, vars)
}

func compileCond(operand bsonraw.Value) (Expr, error) {
	var parts []bsonraw.Value
	switch operand.Type {
	case bsoncore.TypeArray:
		parts = bsonraw.Elements(operand.Data)
		if len(parts) != 3 {
			return nil, mongoerr.New(16020, "Expression $cond takes exactly 3 arguments. %d were passed in.", len(parts))
		}
	case bsoncore.TypeEmbeddedDocument:
		fields, err := branches(operand)
		if err != nil {
			return nil, err
		}
		parts = fields
	default:
		return nil, mongoerr.New(16020, "Expression $cond takes exactly 3 arguments. 1 were passed in.")
	}
	items, err := compileAll(parts)
	if err != nil {
		return nil, err
	}
	return cond{items[0], items[1], items[2]}, nil
}

// branches returns the values of a $cond that is a document.
func branches(operand bsonraw.Value) ([]bsonraw.Value, error) {
	names := []string{"if", "then", "else"}
	found := make([]bsonraw.Value, len(names))
	for it := bsonraw.NewIter(operand.Data); it.Next(); {
		i := slices.Index(names, string(it.Key()))
		if i < 0 {
			return nil, mongoerr.New(17083, "Unrecognized parameter to $cond: %s", it.Key())
		}
		found[i] = it.Value()
	}
	for i, n := range names {
		if bsonraw.IsMissing(found[i]) {
			return nil, mongoerr.New(17080, "Missing '%s' parameter to $cond", n)
		}
	}
	return found, nil
}

type ifNull []Expr

func (items ifNull) Eval(doc []byte, vars Vars) (v bsonraw.Value, err error) {
	for _, e := range items {
		if v, err = e.Eval(doc, vars); err != nil || !bsonraw.IsNullish(v) {
			return v, err
		}
	}
	return v, nil
}
