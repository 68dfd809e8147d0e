package expr

import (
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

func compileCond(operand bsonraw.Value, s scope) (Expr, error) {
	var parts []bsonraw.Value
	switch operand.Type {
	case bsoncore.TypeArray:
		parts = bsonraw.Elements(operand.Data)
		if len(parts) != 3 {
			return nil, mongoerr.New(16020, "Expression $cond takes exactly 3 arguments. %d were passed in.", len(parts))
		}
	case bsoncore.TypeEmbeddedDocument:
		fields, err := named("$cond", operand, "if", "then", "else")
		if err != nil {
			return nil, err
		}
		parts = fields
	default:
		return nil, mongoerr.New(16020, "Expression $cond takes exactly 3 arguments. 1 were passed in.")
	}
	items, err := compileAll(parts, s)
	if err != nil {
		return nil, err
	}
	return cond{items[0], items[1], items[2]}, nil
}

// named returns the values of an operand that must be a document with exactly the given
// fields.
func named(op string, operand bsonraw.Value, names ...string) ([]bsonraw.Value, error) {
	if operand.Type != bsoncore.TypeEmbeddedDocument {
		return nil, mongoerr.New(mongoerr.FailedToParse, "%s only supports an object as its argument", op)
	}
	found := make([]bsonraw.Value, len(names))
next:
	for it := bsonraw.NewIter(operand.Data); it.Next(); {
		for i, n := range names {
			if n == string(it.Key()) {
				found[i] = it.Value()
				continue next
			}
		}
		return nil, mongoerr.New(17083, "Unrecognized parameter to %s: %s", op, it.Key())
	}
	for i, n := range names {
		if bsonraw.IsMissing(found[i]) {
			return nil, mongoerr.New(17080, "Missing '%s' parameter to %s", n, op)
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

type switchExpr struct {
	cases     []cond
	otherwise Expr
}

func (sw switchExpr) Eval(doc []byte, vars Vars) (bsonraw.Value, error) {
	for _, c := range sw.cases {
		v, err := c.test.Eval(doc, vars)
		if err != nil {
			return v, err
		}
		if bsonraw.Truthy(v) {
			return c.then.Eval(doc, vars)
		}
	}
	if sw.otherwise == nil {
		return bsonraw.Missing, mongoerr.New(40066, "$switch could not find a matching branch for an input, and no default was specified.")
	}
	return sw.otherwise.Eval(doc, vars)
}

func compileSwitch(operand bsonraw.Value, s scope) (Expr, error) {
	if operand.Type != bsoncore.TypeEmbeddedDocument {
		return nil, mongoerr.New(40060, "$switch requires an object as an argument, found: %s", bsonraw.TypeName(operand.Type))
	}
	var sw switchExpr
	for it := bsonraw.NewIter(operand.Data); it.Next(); {
		switch key := string(it.Key()); key {
		case "default":
			e, err := compile(it.Value(), s)
			if err != nil {
				return nil, err
			}
			sw.otherwise = e
		case "branches":
			if it.Value().Type != bsoncore.TypeArray {
				return nil, mongoerr.New(40061, "$switch expected an array for 'branches', found: %s", bsonraw.TypeName(it.Value().Type))
			}
			for _, branch := range bsonraw.Elements(it.Value().Data) {
				parts, err := named("$switch", branch, "case", "then")
				if err != nil {
					return nil, err
				}
				items, err := compileAll(parts, s)
				if err != nil {
					return nil, err
				}
				sw.cases = append(sw.cases, cond{test: items[0], then: items[1]})
			}
		default:
			return nil, mongoerr.New(40067, "$switch found an unknown argument: %s", key)
		}
	}
	if len(sw.cases) == 0 {
		return nil, mongoerr.New(40068, "$switch requires at least one branch.")
	}
	return sw, nil
}

type let struct {
	vars []field
	in   Expr
}

func (l let) Eval(doc []byte, vars Vars) (bsonraw.Value, error) {
	inner := vars
	for _, f := range l.vars {
		v, err := f.e.Eval(doc, vars)
		if err != nil {
			return v, err
		}
		inner = inner.with(f.name, v)
	}
	return l.in.Eval(doc, inner)
}

func compileLet(operand bsonraw.Value, s scope) (Expr, error) {
	parts, err := named("$let", operand, "vars", "in")
	if err != nil {
		return nil, err
	}
	if parts[0].Type != bsoncore.TypeEmbeddedDocument {
		return nil, mongoerr.New(mongoerr.TypeMismatch, "$let: 'vars' must be an object")
	}
	var l let
	inner := s
	for it := bsonraw.NewIter(parts[0].Data); it.Next(); {
		e, err := compile(it.Value(), s)
		if err != nil {
			return nil, err
		}
		l.vars = append(l.vars, field{name: string(it.Key()), e: e})
		inner = inner.with(string(it.Key()))
	}
	l.in, err = compile(parts[1], inner)
	return l, err
}

// each is $map or $filter.
type each struct {
	name   string
	as     string
	input  Expr
	body   Expr
	filter bool
}

func (m each) Eval(doc []byte, vars Vars) (bsonraw.Value, error) {
	input, err := m.input.Eval(doc, vars)
	switch {
	case err != nil:
		return input, err
	case bsonraw.IsNullish(input):
		return bsonraw.Null, nil
	case input.Type != bsoncore.TypeArray:
		return bsonraw.Missing, mongoerr.New(28651, "input to %s must be an array not %s", m.name, bsonraw.TypeName(input.Type))
	}
	result := []bsonraw.Value{}
	for it := bsonraw.NewIter(input.Data); it.Next(); {
		v, err := m.body.Eval(doc, vars.with(m.as, it.Value()))
		switch {
		case err != nil:
			return v, err
		case !m.filter && bsonraw.IsMissing(v):
			result = append(result, bsonraw.Null)
		case !m.filter:
			result = append(result, v)
		case bsonraw.Truthy(v):
			result = append(result, it.Value())
		}
	}
	return bsonraw.Array(result), nil
}

func compileEach(name string, operand bsonraw.Value, s scope) (Expr, error) {
	body := "in"
	if name == "$filter" {
		body = "cond"
	}
	m := each{name: name, as: "this", filter: name == "$filter"}
	if operand.Type != bsoncore.TypeEmbeddedDocument {
		return nil, mongoerr.New(28646, "%s only supports an object as its argument", name)
	}
	if as, ok := bsonraw.Lookup(operand.Data, "as"); ok && as.Type == bsoncore.TypeString {
		m.as = string(bsonraw.Text(as))
	}
	var err error
	for it := bsonraw.NewIter(operand.Data); it.Next() && err == nil; {
		switch key := string(it.Key()); key {
		case "as":
		case "input":
			m.input, err = compile(it.Value(), s)
		case body:
			m.body, err = compile(it.Value(), s.with(m.as))
		default:
			err = mongoerr.New(28647, "Unrecognized parameter to %s: %s", name, key)
		}
	}
	if err == nil && (m.input == nil || m.body == nil) {
		err = mongoerr.New(28648, "Missing 'input' or '%s' parameter to %s", body, name)
	}
	return m, err
}
