package projection

import (
	"errors"
	"fmt"
	"math"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/decls"
	"cel.dev/cel-go/common/env"
	celop "cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/stdlib"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// CEL's operators take two numbers of the same kind only. Which kind 10 is stored as
// depends on the driver that wrote the event, so these replacements accept mixed kinds:
//
//	int with int           gives int, an overflow is an error
//	any with a double      gives double
//	any with a Decimal128  gives Decimal128, for + - * / and comparisons
//
// There is no uint: no value in BSON has this type, and an int holds every number of an event.
//
// The minus sign before a Decimal128 is negation.
//
// replacement replaces the standard function with the name.
type replacement struct {
	name string
	// apply computes the result. Neither operand is an error.
	apply func(a, b ref.Val) ref.Val
	// compares is set if the result is a bool. Otherwise it has the common type of the operands.
	compares bool
	// whole is set if operands can be neither doubles nor Decimal128s.
	whole bool
}

var replacements = []replacement{
	{celop.Add, arithmetic(celop.Add, fold.AddDecimals, func(a, b ref.Val) ref.Val {
		if x, ok := a.(traits.Adder); ok {
			return x.Add(b)
		}
		return nil
	}), false, false},
	{celop.Subtract, arithmetic(celop.Subtract, fold.SubtractDecimals, func(a, b ref.Val) ref.Val {
		if x, ok := a.(traits.Subtractor); ok {
			return x.Subtract(b)
		}
		return nil
	}), false, false},
	{celop.Multiply, arithmetic(celop.Multiply, fold.MultiplyDecimals, func(a, b ref.Val) ref.Val {
		if x, ok := a.(traits.Multiplier); ok {
			return x.Multiply(b)
		}
		return nil
	}), false, false},
	{celop.Divide, arithmetic(celop.Divide, fold.DivideDecimals, func(a, b ref.Val) ref.Val {
		if x, ok := a.(traits.Divider); ok {
			return x.Divide(b)
		}
		return nil
	}), false, false},
	{celop.Modulo, arithmetic(celop.Modulo, nil, func(a, b ref.Val) ref.Val {
		if x, ok := a.(traits.Modder); ok {
			return x.Modulo(b)
		}
		return nil
	}), false, true},
	{celop.Less, comparison(celop.Less, func(c int) bool { return c < 0 }), true, false},
	{celop.LessEquals, comparison(celop.LessEquals, func(c int) bool { return c <= 0 }), true, false},
	{celop.Greater, comparison(celop.Greater, func(c int) bool { return c > 0 }), true, false},
	{celop.GreaterEquals, comparison(celop.GreaterEquals, func(c int) bool { return c >= 0 }), true, false},
}

// standardLibrary returns CEL's standard library with the replaced operators.
func standardLibrary() ([]cel.EnvOption, error) {
	excluded := &env.LibrarySubset{}
	var functions []*decls.FunctionDecl
	for _, r := range replacements {
		excluded.ExcludeFunctions = append(excluded.ExcludeFunctions, env.NewFunction(r.name))
		f, err := r.declare()
		if err != nil {
			return nil, fmt.Errorf("declare operator %s: %w", r.name, err)
		}
		functions = append(functions, f)
	}
	excluded.ExcludeFunctions = append(excluded.ExcludeFunctions, env.NewFunction(celop.Negate), env.NewFunction(overloads.TypeConvertUint))
	negation, err := declareAnew(celop.Negate, decls.SingletonUnaryBinding(negateValue), decls.Overload("penstock_negate_decimal128", []*types.Type{typeDecimal128}, typeDecimal128))
	if err != nil {
		return nil, fmt.Errorf("declare operator %s: %w", celop.Negate, err)
	}
	functions = append(functions, negation)
	return []cel.EnvOption{cel.StdLib(cel.StdLibSubset(excluded)), cel.FunctionDecls(functions...)}, nil
}

// declare declares the operator with the overloads of the standard library and with those
// for mixed numbers.
func (r replacement) declare() (*decls.FunctionDecl, error) {
	f, err := declareAnew(r.name, decls.SingletonBinaryBinding(r.apply))
	if err != nil {
		return nil, err
	}
	numbers := []*types.Type{types.IntType, types.DoubleType, typeDecimal128}
	if r.whole {
		numbers = numbers[:1]
	}
	for i, a := range numbers {
		for j, b := range numbers {
			t := numbers[max(i, j)] // the later kind in the list is the common one
			if r.compares {
				t = types.BoolType
			}
			id := fmt.Sprintf("penstock%s%s_%s", r.name, a.TypeName(), b.TypeName())
			if err := addMissing(f, decls.Overload(id, []*types.Type{a, b}, t)); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

// declareAnew declares an operator with the overloads of the standard library and with others.
func declareAnew(name string, binding decls.FunctionOpt, others ...decls.FunctionOpt) (*decls.FunctionDecl, error) {
	copied := func(f *decls.FunctionDecl) (*decls.FunctionDecl, error) {
		for _, standard := range stdlib.Functions() {
			if standard.Name() != name {
				continue
			}
			for _, o := range standard.OverloadDecls() {
				if err := f.AddOverload(o); err != nil {
					return nil, err
				}
			}
		}
		return f, nil
	}
	return decls.NewFunction(name, append([]decls.FunctionOpt{binding, copied}, others...)...)
}

// addMissing adds an overload unless the function already has one for these operands.
func addMissing(f *decls.FunctionDecl, overload decls.FunctionOpt) error {
	alone, err := decls.NewFunction(f.Name(), overload)
	if err != nil {
		return err
	}
	added := alone.OverloadDecls()[0]
	for _, o := range f.OverloadDecls() {
		if o.SignatureOverlaps(added) {
			return nil
		}
	}
	return f.AddOverload(added)
}

// arithmetic returns an operator that computes decimals if an operand is a Decimal128, and
// apply otherwise. decimals is nil if the operator takes no Decimal128. apply returns nil if
// the first operand does not have the operator. Each apply names its interface of package traits:
// one in a type parameter would be looked up in each call.
func arithmetic(operator string, decimals func(a, b fold.Number) (bson.Decimal128, error), apply func(a, b ref.Val) ref.Val) func(a, b ref.Val) ref.Val {
	return func(a, b ref.Val) ref.Val {
		a, b, decimal := alignNumbers(a, b)
		var result ref.Val
		switch {
		case !decimal:
			result = apply(a, b)
		case decimals != nil:
			return computed(decimals(numberIn(a), numberIn(b)))
		}
		if result == nil {
			return noOverload(operator, a, b)
		}
		return checked(operator, a, b, result)
	}
}

func negateValue(a ref.Val) ref.Val {
	if isDecimal(a) {
		return computed(fold.MultiplyDecimals(numberIn(a), fold.Number{Int: -1}))
	}
	if negater, ok := a.(traits.Negater); ok {
		return negater.Negate()
	}
	return noOverload(celop.Negate, a)
}

// comparison returns an operator that compares two values and passes the result
// (negative, 0 or positive) to holds.
func comparison(operator string, holds func(int) bool) func(a, b ref.Val) ref.Val {
	return func(a, b ref.Val) ref.Val {
		switch numbers := isNumber(a) && isNumber(b); {
		case numbers && (isDecimal(a) || a.Type() != b.Type()):
			if isNaN(a) || isNaN(b) {
				return types.WrapErr(errNaNOrder)
			}
			return types.Bool(holds(fold.CompareNumbers(numberIn(a), numberIn(b))))
		case isDecimal(a) || isDecimal(b):
			if !numbers {
				return noOverload(operator, a, b)
			}
		}
		comparer, ok := a.(traits.Comparer)
		if !ok {
			return noOverload(operator, a, b)
		}
		result := comparer.Compare(b)
		c, ok := result.(types.Int)
		if !ok {
			return checked(operator, a, b, result)
		}
		return types.Bool(holds(int(c)))
	}
}

// alignNumbers converts two numbers of different kinds to the kind of the result. decimal
// is set if both are numbers and at least one is a Decimal128. Other values are returned
// unchanged.
func alignNumbers(a, b ref.Val) (x, y ref.Val, decimal bool) {
	switch v := a.(type) {
	case types.Int:
		if _, ok := b.(types.Double); ok {
			return types.Double(v), b, false
		}
	case types.Double:
		if w, ok := b.(types.Int); ok {
			return a, types.Double(w), false
		}
	}
	return a, b, (isDecimal(a) || isDecimal(b)) && isNumber(a) && isNumber(b)
}

func isDecimal(v ref.Val) bool {
	o, ok := v.(opaque)
	return ok && o.raw.Type == bson.TypeDecimal128
}

func isNumber(v ref.Val) bool {
	switch v.(type) {
	case types.Int, types.Double:
		return true
	}
	return isDecimal(v)
}

func isNaN(v ref.Val) bool {
	switch v := v.(type) {
	case types.Double:
		return math.IsNaN(float64(v))
	case opaque:
		return v.raw.Decimal128().IsNaN()
	}
	return false
}

// numberIn returns the number in a value for which isNumber is true.
func numberIn(v ref.Val) fold.Number {
	switch v := v.(type) {
	case types.Int:
		return fold.Number{Int: int64(v)}
	case types.Double:
		return fold.Number{Kind: fold.DoubleNumber, Double: float64(v)}
	case opaque:
		n, _ := fold.NumberOf(v.raw)
		return n
	}
	return fold.Number{}
}

// errNaNOrder has the text of CEL's own error for doubles.
var errNaNOrder = errors.New("NaN values cannot be ordered")

func computed(d bson.Decimal128, err error) ref.Val {
	if err != nil {
		return types.WrapErr(err)
	}
	return opaque{fold.DecimalValue(d)}
}
