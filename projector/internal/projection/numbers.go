package projection

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// decimalFunctions compute the functions of CEL with one number for a Decimal128.
var decimalFunctions = map[string]func(a ref.Val) ref.Val{
	"math.abs": func(a ref.Val) ref.Val {
		if !isNaN(a) && compareNumbers(numberIn(a), number{}) < 0 {
			return negateValue(a)
		}
		return a
	},
	"math.sign": func(a ref.Val) ref.Val {
		if isNaN(a) {
			return types.WrapErr(errNaNOrder)
		}
		return types.Int(compareNumbers(numberIn(a), number{}))
	},
	"math.ceil":     toWhole(ceiling),
	"math.floor":    toWhole(floor),
	"math.round":    toWhole(halfUp),
	"math.trunc":    toWhole(down),
	"math.isNaN":    whether(func(n number) bool { return n.d.IsNaN() }),
	"math.isInf":    whether(func(n number) bool { return n.d.IsInf() != 0 }),
	"math.isFinite": whether(func(n number) bool { return !n.d.IsNaN() && n.d.IsInf() == 0 }),
}

// toWhole rounds a finite Decimal128 to a whole number.
func toWhole(rounding string) func(ref.Val) ref.Val {
	return func(a ref.Val) ref.Val {
		if x, ok := numberIn(a).finite(); ok && x.exponent < 0 {
			return computed(x.rounded(0, rounding).round())
		}
		return a
	}
}

func whether(holds func(number) bool) func(ref.Val) ref.Val {
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
		case best == nil || compareNumbers(numberIn(v), numberIn(best)) == sign:
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
		number number
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
			return compareNumbers(a.number, b.number)
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
		return cel.Function(name, cel.Overload(id, arguments, result, cel.FunctionBinding(compute)))
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
		for _, other := range []*cel.Type{whole, cel.UintType, fraction} {
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
		cel.Function("decimal", converted("string", text), converted("int", whole), converted("uint", cel.UintType), converted("double", fraction), converted("decimal", decimal)),
		cel.Function("sum", cel.MemberOverload("penstock_sum", []*cel.Type{dyn}, dyn, cel.UnaryBinding(sumOf))))
}

// The roundings of math.round and math.divide.
const (
	// halfUp rounds to the nearest, and away from zero if two are equally near.
	halfUp = "half-up"
	// halfEven rounds to the nearest, and to the even one if two are equally near.
	halfEven = "half-even"
	// up rounds away from zero, down towards zero.
	up   = "up"
	down = "down"
	// ceiling rounds towards positive infinity, floor towards negative infinity.
	ceiling = "ceiling"
	floor   = "floor"
)

var roundings = []string{halfUp, halfEven, up, down, ceiling, floor}

// divideRounded divides n by a positive number.
func divideRounded(n, by *big.Int, rounding string) *big.Int {
	quotient, rest := new(big.Int).QuoRem(n, by, new(big.Int))
	if rest.Sign() == 0 {
		return quotient
	}
	c := rest.Abs(rest).Lsh(rest, 1).Cmp(by)
	away := false
	switch rounding {
	case halfUp:
		away = c >= 0
	case halfEven:
		away = c > 0 || c == 0 && quotient.Bit(0) == 1
	case up:
		away = true
	case ceiling:
		away = n.Sign() > 0
	case floor:
		away = n.Sign() < 0
	}
	if away {
		quotient.Add(quotient, big.NewInt(int64(n.Sign())))
	}
	return quotient
}

// rounded rounds to a number of digits after the point; a negative number rounds to tens,
// hundreds and so on.
func (x exact) rounded(places int, rounding string) exact {
	dropped := -places - x.exponent
	if dropped <= 0 {
		return x.lowered(-places)
	}
	if n := digits(x.coefficient); dropped > n+1 {
		// Only the sign matters. 10^dropped could have thousands of digits.
		x, dropped = exact{coefficient: big.NewInt(int64(x.coefficient.Sign()))}, 2
	}
	return exact{coefficient: divideRounded(x.coefficient, tenTo(dropped), rounding), exponent: -places}
}

// maxPlaces bounds the places of math.round and math.divide.
const maxPlaces = 400

// options returns the places and the rounding among the arguments.
func options(arguments []ref.Val) (places int, rounding string, err error) {
	n, _ := arguments[0].(types.Int)
	if n < -maxPlaces || n > maxPlaces {
		return 0, "", fmt.Errorf("%d places are not between -%d and %d", n, maxPlaces, maxPlaces)
	}
	rounding = halfUp
	if len(arguments) > 1 {
		text, _ := arguments[1].(types.String)
		rounding, err = string(text), checkRounding(string(text))
	}
	return int(n), rounding, err
}

func checkRounding(name string) error {
	if !slices.Contains(roundings, name) {
		return fmt.Errorf("there is no rounding %.20q: name one of %s", name, strings.Join(roundings, ", "))
	}
	return nil
}

var errDigits = errors.New("the rounded number has more than the 34 digits of a Decimal128: round to fewer places")

// roundTo rounds a number to places. The result has the number's type.
func roundTo(v ref.Val, arguments []ref.Val) ref.Val {
	places, rounding, err := options(arguments)
	if err != nil {
		return types.WrapErr(err)
	}
	n := numberIn(v)
	x, ok := n.decimal()
	if !ok || n.kind != decimalNumber && places >= -x.exponent {
		return v // there is nothing to round
	}
	if n.kind == decimalNumber {
		return computed(x.quantized(places, rounding))
	}
	x = x.rounded(places, rounding)
	if n.kind == integerNumber {
		if i := x.lowered(0).coefficient; i.IsInt64() {
			return types.Int(i.Int64())
		}
		return types.WrapErr(errTooLarge)
	}
	f, err := strconv.ParseFloat(x.coefficient.String()+"e"+strconv.Itoa(x.exponent), 64)
	if err != nil {
		return types.WrapErr(err)
	}
	return types.Double(f)
}

// quantized returns the Decimal128 with exactly so many digits after the point.
func (x exact) quantized(places int, rounding string) (bson.Decimal128, error) {
	if x.coefficient.Sign() != 0 && x.length()+places > decimalDigits {
		return bson.Decimal128{}, errDigits
	}
	x = x.rounded(places, rounding)
	if x.exponent > 0 && x.coefficient.Sign() != 0 && x.length() <= decimalDigits {
		x = x.lowered(0)
	}
	if digits(x.coefficient) > decimalDigits {
		return bson.Decimal128{}, errDigits
	}
	return x.round()
}

var (
	errDivisionByZero = errors.New("division by zero")
	errNotFinite      = errors.New("NaN and infinities cannot be divided to a number of places")
)

// divideTo divides two numbers exactly and rounds once.
func divideTo(a, b ref.Val, arguments []ref.Val) ref.Val {
	if !isNumber(a) || !isNumber(b) {
		return noOverload("math.divide", a, b)
	}
	places, rounding, err := options(arguments)
	if err != nil {
		return types.WrapErr(err)
	}
	x, xFinite := numberIn(a).decimal()
	y, yFinite := numberIn(b).decimal()
	switch {
	case !xFinite || !yFinite:
		return types.WrapErr(errNotFinite)
	case y.coefficient.Sign() == 0:
		return types.WrapErr(errDivisionByZero)
	case x.coefficient.Sign() != 0 && x.length()-y.length()+1+places > decimalDigits+1:
		return types.WrapErr(errDigits)
	}
	quotient := x.over(y, max(0, x.exponent-y.exponent+places+2))
	return computed(quotient.quantized(places, rounding))
}

// over divides by y, which is not zero. The quotient has more places than shift after the
// first digit of x. If the quotient is not exact, its last digit is 1, so that it is rounded
// like the exact one.
func (x exact) over(y exact, shift int) exact {
	n := new(big.Int).Mul(x.coefficient, tenTo(shift))
	quotient, rest := n.QuoRem(n, y.coefficient, new(big.Int))
	exponent := x.exponent - y.exponent - shift
	if rest.Sign() != 0 {
		sign := int64(x.coefficient.Sign() * y.coefficient.Sign())
		quotient.Mul(quotient, big.NewInt(10)).Add(quotient, big.NewInt(sign))
		exponent--
	}
	return exact{coefficient: quotient, exponent: exponent}
}

// divideDecimals divides with 34 digits. An exact quotient has as few zeros at its end as the
// operands.
func divideDecimals(a, b number) (bson.Decimal128, error) {
	y, finite := b.decimal()
	if finite && y.coefficient.Sign() == 0 {
		return bson.Decimal128{}, errDivisionByZero
	}
	return computeDecimals(a, b, func(x, y exact) exact {
		shift := max(0, decimalDigits+2+digits(y.coefficient)-digits(x.coefficient))
		quotient, least := x.over(y, shift), x.exponent-y.exponent
		if quotient.coefficient.Sign() == 0 {
			quotient.exponent = least
		}
		for quotient.exponent < least {
			shorter, rest := new(big.Int).QuoRem(quotient.coefficient, big.NewInt(10), new(big.Int))
			if rest.Sign() != 0 {
				break
			}
			quotient = exact{shorter, quotient.exponent + 1}
		}
		return quotient
	}, func(x, y float64) float64 { return x / y })
}

// maxDecimalText bounds the text of a number, which may have zeros at both ends.
const maxDecimalText = 200

var decimalText = regexp.MustCompile(`^([+-]?)(\d+)(?:\.(\d*))?(?:[eE]([+-]?\d{1,5}))?$`)

// decimalFrom converts a number or a text to a Decimal128 of 34 digits.
func decimalFrom(v ref.Val) ref.Val {
	if text, ok := v.(types.String); ok {
		return computed(parseDecimal(string(text)))
	}
	n := numberIn(v)
	if x, ok := n.decimal(); ok {
		return computed(x.round())
	}
	return computed(specialDecimal(n.magnitude()))
}

func parseDecimal(text string) (bson.Decimal128, error) {
	if len(text) <= maxDecimalText {
		if m := decimalText.FindStringSubmatch(text); m != nil {
			c, _ := new(big.Int).SetString(m[1]+m[2]+m[3], 10)
			exponent, _ := strconv.Atoi(m[4])
			return exact{coefficient: c, exponent: exponent - len(m[3])}.round()
		}
	}
	return bson.Decimal128{}, fmt.Errorf("%.40q is not a decimal number: write decimal('12.50')", text)
}

// sumOf adds the numbers of a list. The result does not depend on their order: the sum is
// computed exactly and rounded once.
func sumOf(v ref.Val) ref.Val {
	l, ok := v.(traits.Lister)
	if !ok {
		return noOverload("sum", v)
	}
	kind, special := integerNumber, 0.0
	values := elementsOf(l)
	for i, v := range values {
		switch v := v.(type) {
		case types.Int, types.Uint:
		case types.Double:
			kind = max(kind, doubleNumber)
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				special += float64(v)
			}
		default:
			if !isDecimal(v) {
				return types.NewErr("sum adds numbers, and element %d of the list is %s: leave such elements out, as in list.filter(e, e != null).sum()", i, plainType(v.Type().TypeName()))
			}
			kind = decimalNumber
			special += numberIn(v).magnitude()
		}
	}
	switch {
	case kind == doubleNumber:
		return types.Double(sumDoubles(values, special))
	case special != 0:
		return computed(specialDecimal(special))
	}
	sum := sumExactly(values)
	if kind == decimalNumber {
		return computed(sum.round())
	}
	if !sum.coefficient.IsInt64() {
		return types.WrapErr(errTooLarge)
	}
	return types.Int(sum.coefficient.Int64())
}

// sumExactly adds finite numbers. It adds those with the same exponent first, because numbers
// with thousands of digits are slow.
func sumExactly(values []ref.Val) exact {
	sums := map[int]*big.Int{}
	for _, v := range values {
		var x exact
		if u, ok := v.(types.Uint); ok {
			x.coefficient = new(big.Int).SetUint64(uint64(u))
		} else {
			x, _ = numberIn(v).decimal()
		}
		if sum := sums[x.exponent]; sum != nil {
			sum.Add(sum, x.coefficient)
		} else {
			sums[x.exponent] = new(big.Int).Set(x.coefficient)
		}
	}
	exponents := slices.Sorted(maps.Keys(sums))
	slices.Reverse(exponents)
	total := exact{coefficient: new(big.Int)}
	for i, exponent := range exponents {
		if i == 0 {
			total.exponent = exponent
		}
		total = total.lowered(exponent)
		total.coefficient.Add(total.coefficient, sums[exponent])
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
		case types.Uint:
			addend.SetUint64(uint64(v))
		case types.Double:
			addend.SetFloat64(float64(v))
		}
		sum.Add(sum, addend)
	}
	f, _ := sum.Float64()
	return f
}

// decimalToInt drops the fraction.
func decimalToInt(n number) ref.Val {
	const intDigits = 19
	x, ok := n.finite()
	if ok && x.coefficient.Sign() != 0 && x.length() <= intDigits {
		x = x.rounded(0, down)
	} else if ok && x.coefficient.Sign() == 0 {
		x.exponent = 0
	}
	if !ok || x.exponent != 0 || !x.coefficient.IsInt64() {
		return types.NewErr("%s is not in the range of an int", n.d)
	}
	return types.Int(x.coefficient.Int64())
}
