package fold

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Total is a total of a view over the parts of a document.
type Total struct {
	Name string
	Kind TotalKind
	// ByKey says that the total is a document with a sum or a count for each key.
	ByKey bool
	// Decimals says that all values of a sum are Decimal128s, because decimal() makes them.
	Decimals bool
}

// TotalKind is how a total is computed. None of them depends on the order of the parts.
type TotalKind string

// The kinds of totals.
const (
	// TotalSum adds whole numbers and Decimal128s exactly. It is a Decimal128 if one of them is.
	TotalSum TotalKind = "sum"
	// TotalCount counts.
	TotalCount TotalKind = "count"
	// TotalMin and totalMax keep the least and the greatest value.
	TotalMin TotalKind = "min"
	TotalMax TotalKind = "max"
	// TotalSet keeps each value once, sorted. A list counts with its elements that are not null.
	TotalSet TotalKind = "set"
)

// TotalKinds are all of them.
var TotalKinds = []TotalKind{TotalSum, TotalCount, TotalMin, TotalMax, TotalSet}

// Adds reports whether a total is a sum, or a count, which is a sum of ones.
func (k TotalKind) Adds() bool { return k == TotalSum || k == TotalCount }

// change returns the total after some parts have added other values. The error is
// [errIncremental] if only all parts show the result.
func (t Total) change(old bson.RawValue, removed, added []bson.RawValue) (bson.RawValue, error) {
	switch {
	case t.ByKey:
		return t.changeKeys(old, removed, added)
	case t.Kind.Adds():
		return t.changeSum(old, removed, added)
	case t.Kind == TotalSet:
		return changeSet(old, removed, added)
	}
	best := old
	for _, v := range added {
		if Present(best) {
			if _, err := CompareValues(v, best); err != nil {
				return old, errIncremental // another change may remove best
			}
		}
		if c := CompareCanonical(v, best); !Present(best) || t.Kind == TotalMin && c < 0 || t.Kind == TotalMax && c > 0 {
			best = v
		}
	}
	for _, v := range removed {
		if SameBytes(v, best) && !slices.ContainsFunc(added, func(a bson.RawValue) bool { return SameBytes(a, best) }) {
			return old, errIncremental
		}
	}
	return best, nil
}

// changeSum changes a sum exactly. Decimal128s without trailing zeros have one form for each
// value, so that the sum does not show in which order it was computed.
func (t Total) changeSum(old bson.RawValue, removed, added []bson.RawValue) (bson.RawValue, error) {
	sum := newExactSum()
	if Present(old) && sum.change(1, old) != nil || cmp.Or(sum.change(1, added...), sum.change(-1, removed...)) != nil {
		return old, errIncremental // somebody has changed it
	}
	if old.Type == bson.TypeDecimal128 && sum.decimals == 0 || sum.decimals < 0 {
		// As many Decimal128s or more went as came. If none is left, the sum is whole; if all
		// values are Decimal128s, it is 0.
		x := sum.exact.shortest()
		left := x.Exponent < 0 || t.Decimals && x.Coefficient.Sign() != 0
		if old.Type != bson.TypeDecimal128 || !left {
			return old, errIncremental
		}
		sum.decimals = 1
	}
	next, err := sum.value()
	if err != nil {
		// The sum may be too long or too large only between two of several changes.
		return old, errIncremental
	}
	return next, nil
}

// exactSum is the exact sum of numbers.
type exactSum struct {
	exact Exact
	// decimals is how many more Decimal128s were added than subtracted.
	decimals int
}

func newExactSum() *exactSum { return &exactSum{exact: Exact{Coefficient: new(big.Int)}} }

// change adds the values, or subtracts them if sign is -1.
func (s *exactSum) change(sign int, values ...bson.RawValue) error {
	for _, v := range values {
		n, _ := NumberOf(v)
		x, ok := n.Finite()
		if !ok {
			return fmt.Errorf("%s cannot be added", TypeName(v))
		}
		if n.Kind == DecimalNumber {
			s.decimals += sign
		}
		switch {
		case x.Coefficient.Sign() == 0:
			continue
		case s.exact.Coefficient.Sign() == 0:
			s.exact.Exponent = x.Exponent // with that of 0, 1E+6144 has thousands of digits
		}
		a, b := alike(s.exact, x)
		b.Coefficient = new(big.Int).Mul(b.Coefficient, big.NewInt(int64(sign)))
		s.exact = Exact{Coefficient: b.Coefficient.Add(a.Coefficient, b.Coefficient), Exponent: a.Exponent}
	}
	return nil
}

// errDecimalTooLong says that a sum would have to be rounded. Then it would depend on the order
// of the numbers.
var errDecimalTooLong = fmt.Errorf("the sum has more than %d digits: round the values, or leave some of them out with where", DecimalDigits)

// value is a Decimal128 if one of the numbers is.
func (s *exactSum) value() (bson.RawValue, error) {
	if s.decimals != 0 {
		x := s.exact.shortest()
		if digits(x.Coefficient) > DecimalDigits {
			return bson.RawValue{}, errDecimalTooLong
		}
		d, err := x.Round()
		return DecimalValue(d), err
	}
	if !s.exact.Coefficient.IsInt64() {
		return bson.RawValue{}, fmt.Errorf("%w: convert the values with decimal()", ErrTooLarge)
	}
	return IntegerValue(s.exact.Coefficient.Int64()), nil
}

// shortest returns the number without trailing zeros.
func (x Exact) shortest() Exact {
	if x.Coefficient.Sign() == 0 {
		return Exact{Coefficient: x.Coefficient}
	}
	return x.shortened(math.MaxInt32)
}

func changeSet(old bson.RawValue, removed, added []bson.RawValue) (bson.RawValue, error) {
	var values []bson.RawValue
	if old.Type == bson.TypeArray {
		values = ValuesOf(old)
	}
	slices.SortFunc(added, CompareCanonical)
	for _, v := range removed {
		if _, found := slices.BinarySearchFunc(added, v, CompareCanonical); !found {
			return old, errIncremental // perhaps another part has the value
		}
	}
	values = append(values, added...)
	slices.SortFunc(values, CompareCanonical)
	return ArrayOf(bson.RawValue{}, slices.CompactFunc(values, SameBytes)), nil
}

// CompareCanonical orders any two values: those with an order by compareValues, others by the
// bytes of their type and value. Only equal bytes are equal.
func CompareCanonical(a, b bson.RawValue) int {
	if c, err := CompareValues(a, b); err == nil && c != 0 {
		return c
	} else if err != nil {
		if c := cmp.Compare(rank(a), rank(b)); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(a.Type, b.Type), bytes.Compare(a.Value, b.Value))
}

// rank is the type of a value, with one for all numbers.
func rank(v bson.RawValue) bson.Type {
	if _, ok := NumberOf(v); ok {
		return bson.TypeInt64
	}
	return v.Type
}

// String names the total in messages.
func (t Total) String() string { return fmt.Sprintf("%s (%s)", t.Name, t.Form()) }

// Form is the kind of the total, and whether it is by a key.
func (t Total) Form() string {
	if t.ByKey {
		return string(t.Kind) + " by a key"
	}
	return string(t.Kind)
}

// Admit returns a value in the form in which a total takes it.
func (k TotalKind) Admit(v bson.RawValue) (bson.RawValue, error) {
	switch k {
	case TotalSum:
		n, ok := NumberOf(v)
		switch {
		case !ok:
			return v, fmt.Errorf("the value is %s, not a number", TypeName(v))
		case n.Kind == IntegerNumber:
			return IntegerValue(n.Int), nil
		case n.Kind == DoubleNumber && n.Double == math.Trunc(n.Double) && math.Abs(n.Double) < 1<<53:
			return IntegerValue(int64(n.Double)), nil
		case n.Magnitude() != 0:
			return v, fmt.Errorf("%v cannot be added: leave it out with where", n.Magnitude())
		case n.Kind == DoubleNumber:
			return v, errors.New("a sum of doubles with a fraction, or from 2^53 on, depends on the order in which they are added: convert the value with decimal(), or add whole numbers of a smaller unit")
		}
		return v, nil
	case TotalMin, TotalMax:
		if n, ok := NumberOf(v); ok && math.IsNaN(n.Magnitude()) {
			return v, errors.New("NaN has no order: leave it out with where")
		}
		if _, err := CompareValues(v, v); err != nil {
			return v, fmt.Errorf("%s has no order", TypeName(v))
		}
		return v, nil
	case TotalSet:
		values := []bson.RawValue{v}
		if v.Type == bson.TypeArray {
			values = slices.DeleteFunc(ValuesOf(v), func(v bson.RawValue) bool { return v.Type == bson.TypeNull })
		}
		slices.SortFunc(values, CompareCanonical)
		return ArrayOf(bson.RawValue{}, slices.CompactFunc(values, SameBytes)), nil
	}
	return v, nil
}
