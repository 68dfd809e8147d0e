package projection

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// decimalFunctions compute the functions of CEL with one number for a Decimal128.
var decimalFunctions = map[string]func(a ref.Val) ref.Val{
	"math.abs": func(a ref.Val) ref.Val {
		if !isNaN(a) && fold.CompareNumbers(numberIn(a), fold.Number{}) < 0 {
			return negateValue(a)
		}
		return a
	},
	"math.sign": func(a ref.Val) ref.Val {
		if isNaN(a) {
			return types.WrapErr(errNaNOrder)
		}
		return types.Int(fold.CompareNumbers(numberIn(a), fold.Number{}))
	},
	"math.ceil":     toWhole(fold.Ceiling),
	"math.floor":    toWhole(fold.Floor),
	"math.round":    toWhole(fold.HalfUp),
	"math.trunc":    toWhole(fold.Down),
	"math.isNaN":    whether(func(n fold.Number) bool { return n.Decimal128.IsNaN() }),
	"math.isInf":    whether(func(n fold.Number) bool { return n.Decimal128.IsInf() != 0 }),
	"math.isFinite": whether(func(n fold.Number) bool { return !n.Decimal128.IsNaN() && n.Decimal128.IsInf() == 0 }),
}

// toWhole rounds a finite Decimal128 to a whole number.
func toWhole(rounding string) func(ref.Val) ref.Val {
	return func(a ref.Val) ref.Val {
		if x, ok := numberIn(a).Finite(); ok && x.Exponent < 0 {
			return computed(x.Rounded(0, rounding).Round())
		}
		return a
	}
}

func whether(holds func(fold.Number) bool) func(ref.Val) ref.Val {
	return func(a ref.Val) ref.Val { return types.Bool(holds(numberIn(a))) }
}

// extremeOf returns the first of the greatest numbers (sign 1) or of the least ones (sign -1).
func extremeOf(function string, sign int, a []ref.Val) ref.Val {
	values := a
	if l, ok := a[0].(traits.Lister); ok && len(a) == 1 {
		values = elementsOf(l)
	}
	if !slices.ContainsFunc(values, isDecimal) {
		return nil
	}
	var best ref.Val
	for _, v := range values {
		switch {
		case !isNumber(v):
			return noOverload(function, a...)
		case isNaN(v):
			return types.WrapErr(errNaNOrder)
		case best == nil || fold.CompareNumbers(numberIn(v), numberIn(best)) == sign:
			best = v
		}
	}
	return best
}

func elementsOf(l traits.Lister) []ref.Val {
	values := make([]ref.Val, 0, listSize(l))
	for elements := l.Iterator(); elements.HasNext() == types.True; {
		values = append(values, elements.Next())
	}
	return values
}

// sortList sorts a list by keys: numbers of any kind, or other values of one type. Equal keys
// keep their order. CEL's own function does not keep it, and does not refuse NaN. The result is
// nil if the keys have no order: CEL says why.
func sortList(list, by ref.Val) ref.Val {
	l, ok := list.(traits.Lister)
	k, alsoOK := by.(traits.Lister)
	if !ok || !alsoOK || listSize(l) != listSize(k) {
		return nil
	}
	type element struct {
		key    ref.Val
		number fold.Number
		value  ref.Val
	}
	values, keys := elementsOf(l), elementsOf(k)
	elements := make([]element, len(keys))
	for i, key := range keys {
		elements[i] = element{key: key, value: values[i]}
		switch _, ok := key.(traits.Comparer); {
		case isNumber(key) && isNaN(key):
			return types.WrapErr(errNaNOrder)
		case isNumber(key) && isNumber(keys[0]):
			elements[i].number = numberIn(key)
		case !ok || key.Type() != keys[0].Type():
			return nil
		}
	}
	slices.SortStableFunc(elements, func(a, b element) int {
		if isNumber(a.key) {
			return fold.CompareNumbers(a.number, b.number)
		}
		c, _ := a.key.(traits.Comparer).Compare(b.key).(types.Int)
		return int(c)
	})
	for i, e := range elements {
		values[i] = e.value
	}
	return types.NewRefValList(types.DefaultTypeAdapter, values)
}

// numberFunctions declares the functions of numbers, and CEL's own for Decimal128s.
func numberFunctions() []cel.EnvOption {
	decimal, dyn, whole, fraction, text := typeDecimal128, cel.DynType, cel.IntType, cel.DoubleType, cel.StringType
	late := func(name string, result *cel.Type, arguments ...*cel.Type) cel.EnvOption {
		id := "penstock_" + name
		for _, t := range arguments {
			id += "_" + t.String()
		}
		switch apply := decimalFunctions[name]; {
		case apply != nil:
			return cel.Function(name, cel.Overload(id, arguments, result, cel.UnaryBinding(apply)))
		case name == "sort" || name == "@sortByAssociatedKeys":
			return cel.Function(name, cel.MemberOverload(id, arguments, result)) // all overloads have one binding
		}
		compute := functionTable[name].compute
		return cel.Function(name, cel.Overload(id, arguments, result, cel.FunctionBinding(func(a ...ref.Val) ref.Val { return compute(nil, a...) })))
	}
	var declared []cel.EnvOption
	for _, name := range []string{"math.abs", "math.ceil", "math.floor", "math.round", "math.trunc"} {
		declared = append(declared, late(name, decimal, decimal))
	}
	for _, name := range []string{"math.isNaN", "math.isInf", "math.isFinite"} {
		declared = append(declared, late(name, cel.BoolType, decimal))
	}
	for _, name := range []string{"math.@max", "math.@min"} {
		declared = append(declared, late(name, decimal, decimal), late(name, decimal, cel.ListType(decimal)), late(name, decimal, decimal, decimal))
		for _, other := range []*cel.Type{whole, fraction} {
			declared = append(declared, late(name, dyn, decimal, other), late(name, dyn, other, decimal))
		}
	}
	element := cel.TypeParamType("T")
	declared = append(declared, late("math.sign", whole, decimal),
		late("sort", cel.ListType(decimal), cel.ListType(decimal)),
		late("@sortByAssociatedKeys", cel.ListType(element), cel.ListType(element), cel.ListType(decimal)))

	rounded := func(id string, t *cel.Type) []cel.FunctionOpt {
		binding := cel.FunctionBinding(func(a ...ref.Val) ref.Val { return roundTo(a[0], a[1:]) })
		return []cel.FunctionOpt{
			cel.Overload("penstock_round_"+id, []*cel.Type{t, whole}, t, binding),
			cel.Overload("penstock_round_mode_"+id, []*cel.Type{t, whole, text}, t, binding),
		}
	}
	converted := func(id string, t *cel.Type) cel.FunctionOpt {
		return cel.Overload("penstock_decimal_"+id, []*cel.Type{t}, decimal, cel.UnaryBinding(decimalFrom))
	}
	divided := cel.FunctionBinding(func(a ...ref.Val) ref.Val { return divideTo(a[0], a[1], a[2:]) })
	return append(declared,
		cel.Function("math.round", slices.Concat(rounded("int", whole), rounded("double", fraction), rounded("decimal", decimal))...),
		cel.Function("math.divide",
			cel.Overload("penstock_divide", []*cel.Type{dyn, dyn, whole}, decimal, divided),
			cel.Overload("penstock_divide_mode", []*cel.Type{dyn, dyn, whole, text}, decimal, divided)),
		cel.Function("decimal", converted("string", text), converted("int", whole), converted("double", fraction), converted("decimal", decimal)),
		cel.Function("sum", cel.MemberOverload("penstock_sum", []*cel.Type{dyn}, dyn, cel.UnaryBinding(sumOf))))
}

// maxPlaces bounds the places of math.round and math.divide.
const maxPlaces = 400

// options returns the places and the rounding among the arguments.
func options(arguments []ref.Val) (places int, rounding string, err error) {
	n, _ := arguments[0].(types.Int)
	if n < -maxPlaces || n > maxPlaces {
		return 0, "", fmt.Errorf("%d places are not between -%d and %d", n, maxPlaces, maxPlaces)
	}
	rounding = fold.HalfUp
	if len(arguments) > 1 {
		text, _ := arguments[1].(types.String)
		rounding, err = string(text), fold.CheckRounding(string(text))
	}
	return int(n), rounding, err
}

// roundTo rounds a number to places. The result has the number's type.
func roundTo(v ref.Val, arguments []ref.Val) ref.Val {
	places, rounding, err := options(arguments)
	if err != nil {
		return types.WrapErr(err)
	}
	n := numberIn(v)
	x, ok := n.Decimal()
	if !ok || n.Kind != fold.DecimalNumber && places >= -x.Exponent {
		return v // there is nothing to round
	}
	if n.Kind == fold.DecimalNumber {
		return computed(x.Quantized(places, rounding))
	}
	x = x.Rounded(places, rounding)
	if n.Kind == fold.IntegerNumber {
		if i := x.Lowered(0).Coefficient; i.IsInt64() {
			return types.Int(i.Int64())
		}
		return types.WrapErr(fold.ErrTooLarge)
	}
	f, err := strconv.ParseFloat(x.Coefficient.String()+"e"+strconv.Itoa(x.Exponent), 64)
	if err != nil {
		return types.WrapErr(err)
	}
	return types.Double(f)
}

var errNotFinite = errors.New("NaN and infinities cannot be divided to a number of places")

// divideTo divides two numbers exactly and rounds once.
func divideTo(a, b ref.Val, arguments []ref.Val) ref.Val {
	if !isNumber(a) || !isNumber(b) {
		return noOverload("math.divide", a, b)
	}
	places, rounding, err := options(arguments)
	if err != nil {
		return types.WrapErr(err)
	}
	x, xFinite := numberIn(a).Decimal()
	y, yFinite := numberIn(b).Decimal()
	switch {
	case !xFinite || !yFinite:
		return types.WrapErr(errNotFinite)
	case y.Coefficient.Sign() == 0:
		return types.WrapErr(fold.ErrDivisionByZero)
	case x.Coefficient.Sign() != 0 && x.Length()-y.Length()+1+places > fold.DecimalDigits+1:
		return types.WrapErr(fold.ErrDigits)
	}
	quotient := x.Over(y, max(0, x.Exponent-y.Exponent+places+2))
	return computed(quotient.Quantized(places, rounding))
}

// decimalFrom converts a number or a text to a Decimal128 of 34 digits.
func decimalFrom(v ref.Val) ref.Val {
	if text, ok := v.(types.String); ok {
		return computed(fold.ParseDecimal(string(text)))
	}
	n := numberIn(v)
	if x, ok := n.Decimal(); ok {
		return computed(x.Round())
	}
	return computed(fold.SpecialDecimal(n.Magnitude()))
}

// sumOf adds the numbers of a list. The result does not depend on their order: the sum is
// computed exactly and rounded once.
func sumOf(v ref.Val) ref.Val {
	l, ok := v.(traits.Lister)
	if !ok {
		return noOverload("sum", v)
	}
	kind, special := fold.IntegerNumber, 0.0
	values := elementsOf(l)
	for i, v := range values {
		switch v := v.(type) {
		case types.Int:
		case types.Double:
			kind = max(kind, fold.DoubleNumber)
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				special += float64(v)
			}
		default:
			if !isDecimal(v) {
				return types.NewErr("sum adds numbers, and element %d of the list is %s: leave such elements out, as in list.filter(e, e != null).sum()", i, plainType(v.Type().TypeName()))
			}
			kind = fold.DecimalNumber
			special += numberIn(v).Magnitude()
		}
	}
	switch {
	case kind == fold.DoubleNumber:
		return types.Double(sumDoubles(values, special))
	case special != 0:
		return computed(fold.SpecialDecimal(special))
	}
	sum := sumExactly(values)
	if kind == fold.DecimalNumber {
		return computed(sum.Round())
	}
	if !sum.Coefficient.IsInt64() {
		return types.WrapErr(fold.ErrTooLarge)
	}
	return types.Int(sum.Coefficient.Int64())
}

// sumExactly adds finite numbers. It adds those with the same exponent first, because numbers
// with thousands of digits are slow.
func sumExactly(values []ref.Val) fold.Exact {
	sums := map[int]*big.Int{}
	for _, v := range values {
		x, _ := numberIn(v).Decimal()
		if sum := sums[x.Exponent]; sum != nil {
			sum.Add(sum, x.Coefficient)
		} else {
			sums[x.Exponent] = new(big.Int).Set(x.Coefficient)
		}
	}
	exponents := slices.Sorted(maps.Keys(sums))
	slices.Reverse(exponents)
	total := fold.Exact{Coefficient: new(big.Int)}
	for i, exponent := range exponents {
		if i == 0 {
			total.Exponent = exponent
		}
		total = total.Lowered(exponent)
		total.Coefficient.Add(total.Coefficient, sums[exponent])
	}
	return total
}

// doubleBits is enough for the exact sum of as many doubles as a list can have.
const doubleBits = 2200

// sumDoubles returns the double that is nearest to the exact sum.
func sumDoubles(values []ref.Val, special float64) float64 {
	switch {
	case math.IsNaN(special):
		return math.NaN() // the bits of other NaNs depend on the processor
	case special != 0:
		return special
	}
	sum, addend := new(big.Float).SetPrec(doubleBits), new(big.Float).SetPrec(64)
	for _, v := range values {
		switch v := v.(type) {
		case types.Int:
			addend.SetInt64(int64(v))
		case types.Double:
			addend.SetFloat64(float64(v))
		}
		sum.Add(sum, addend)
	}
	f, _ := sum.Float64()
	return f
}

// decimalToInt drops the fraction.
func decimalToInt(n fold.Number) ref.Val {
	const intDigits = 19
	x, ok := n.Finite()
	if ok && x.Coefficient.Sign() != 0 && x.Length() <= intDigits {
		x = x.Rounded(0, fold.Down)
	} else if ok && x.Coefficient.Sign() == 0 {
		x.Exponent = 0
	}
	if !ok || x.Exponent != 0 || !x.Coefficient.IsInt64() {
		return types.NewErr("%s is not in the range of an int", n.Decimal128)
	}
	return types.Int(x.Coefficient.Int64())
}
