package expr

import (
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// operator is a function of evaluated operands and the bounds of their number; most is -1
// for no bound.
type operator struct {
	least, most int
	eval        func([]bsonraw.Value) (bsonraw.Value, error)
}

// operators returns an operator that always evaluates all its operands first.
func operators(name string) (operator, bool) {
	switch name {
	case "$eq", "$ne", "$gt", "$gte", "$lt", "$lte":
		return operator{2, 2, comparison(name)}, true
	case "$not":
		return operator{1, 1, func(v []bsonraw.Value) (bsonraw.Value, error) {
			return bsonraw.BoolValue(!bsonraw.Truthy(v[0])), nil
		}}, true
	case "$add":
		return operator{0, -1, add}, true
	case "$subtract":
		return operator{2, 2, subtract}, true
	case "$in":
		return operator{2, 2, in}, true
	case "$type":
		return operator{1, 1, func(v []bsonraw.Value) (bsonraw.Value, error) {
			return bsonraw.StringValue(bsonraw.TypeName(v[0].Type)), nil
		}}, true
	case "$bsonSize":
		return operator{1, 1, bsonSize}, true
	case "$max", "$min":
		return operator{0, -1, extreme(name)}, true
	case "$sum":
		return operator{0, -1, sum}, true
	}
	return operator{}, false
}

type call struct {
	name string
	eval func([]bsonraw.Value) (bsonraw.Value, error)
	args []Expr
}

func (c call) Eval(doc []byte, vars Vars) (bsonraw.Value, error) {
	values, err := evalAll(c.args, doc, vars)
	if err != nil {
		return bsonraw.Missing, err
	}
	if vars.Collation != nil {
		switch c.name {
		case "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in":
			for i, v := range values {
				values[i] = vars.Collation.Value(v)
			}
		case "$min", "$max":
			return bsonraw.Missing, mongoerr.Lacking("%s with a collation", c.name)
		}
	}
	return c.eval(values)
}

func compileOperator(name string, operand bsonraw.Value) (Expr, error) {
	switch name {
	case "$literal":
		return literal{operand}, nil
	case "$and", "$or":
		items, err := compileArgs(operand)
		if err != nil {
			return nil, err
		}
		return logic{items: items, any: name == "$or"}, nil
	case "$cond":
		return compileCond(operand)
	case "$ifNull":
		items, err := compileArgs(operand)
		if err != nil {
			return nil, err
		}
		if len(items) < 2 {
			return nil, mongoerr.New(1257300, "$ifNull needs at least two arguments, had: %d", len(items))
		}
		return ifNull(items), nil
	}
	op, ok := operators(name)
	if !ok {
		return nil, mongoerr.New(mongoerr.InvalidPipelineOperator, "Unrecognized expression '%s'", name)
	}
	args, err := compileArgs(operand)
	if err != nil {
		return nil, err
	}
	if len(args) < op.least || op.most >= 0 && len(args) > op.most {
		return nil, mongoerr.New(16020, "Expression %s takes exactly %d arguments. %d were passed in.", name, op.least, len(args))
	}
	return call{name: name, eval: op.eval, args: args}, nil
}

// compileArgs compiles an operator's operands: the elements of an array, or a single
// value.
func compileArgs(operand bsonraw.Value) ([]Expr, error) {
	if operand.Type == bsoncore.TypeArray {
		return compileAll(bsonraw.Elements(operand.Data))
	}
	e, err := Compile(operand)
	if err != nil {
		return nil, err
	}
	return []Expr{e}, nil
}

func comparison(name string) func([]bsonraw.Value) (bsonraw.Value, error) {
	holds := map[string]func(int) bool{
		"$eq": func(c int) bool { return c == 0 }, "$ne": func(c int) bool { return c != 0 },
		"$gt": func(c int) bool { return c > 0 }, "$gte": func(c int) bool { return c >= 0 },
		"$lt": func(c int) bool { return c < 0 }, "$lte": func(c int) bool { return c <= 0 },
	}[name]
	return func(v []bsonraw.Value) (bsonraw.Value, error) {
		return bsonraw.BoolValue(holds(bsonraw.Compare(v[0], v[1]))), nil
	}
}
