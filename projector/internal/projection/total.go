package projection

import (
	"bytes"
	"cmp"
	"fmt"
	"math/big"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// total is a total of a view over the parts of a document.
type total struct {
	name string
	kind totalKind
	// decimals says that all values of a sum are Decimal128s, because decimal() makes them.
	decimals bool
}

// totalKind is how a total is computed. None of them depends on the order of the parts.
type totalKind string

const (
	// totalSum adds whole numbers and Decimal128s exactly. It is a Decimal128 if one of them is.
	totalSum totalKind = "sum"
	// totalCount counts.
	totalCount totalKind = "count"
	// totalMin and totalMax keep the least and the greatest value.
	totalMin totalKind = "min"
	totalMax totalKind = "max"
	// totalSet keeps each value once, sorted. A list counts with its elements that are not null.
	totalSet totalKind = "set"
)

var totalKinds = []totalKind{totalSum, totalCount, totalMin, totalMax, totalSet}

// change returns the total after some parts have added other values. The error is
// [errIncremental] if only all parts show the result.
func (t total) change(old bson.RawValue, removed, added []bson.RawValue) (bson.RawValue, error) {
	switch t.kind {
	case totalSum, totalCount:
		return t.changeSum(old, removed, added)
	case totalSet:
		return changeSet(old, removed, added)
	}
	best := old
	for _, v := range added {
		if c := compareCanonical(v, best); !present(best) || t.kind == totalMin && c < 0 || t.kind == totalMax && c > 0 {
			best = v
		}
	}
	for _, v := range removed {
		if sameBytes(v, best) && !slices.ContainsFunc(added, func(a bson.RawValue) bool { return sameBytes(a, best) }) {
			return old, errIncremental
		}
	}
	return best, nil
}

// changeSum changes a sum exactly. Decimal128s without trailing zeros have one form for each
// value, so that the sum does not show in which order it was computed.
func (t total) changeSum(old bson.RawValue, removed, added []bson.RawValue) (bson.RawValue, error) {
	sum := newExactSum()
	if present(old) {
		if err := sum.add([]bson.RawValue{old}); err != nil {
			return old, errIncremental // somebody has changed it
		}
	}
	if err := cmp.Or(sum.add(added), sum.subtract(removed)); err != nil {
		return old, err
	}
	if old.Type == bson.TypeDecimal128 && sum.decimals == 0 || sum.decimals < 0 {
		// As many Decimal128s or more went as came. If none is left, the sum is whole; if all
		// values are Decimal128s, it is 0.
		x := sum.exact.shortest()
		left := x.exponent < 0 || t.decimals && x.coefficient.Sign() != 0
		if old.Type != bson.TypeDecimal128 || !left || digits(x.coefficient) > decimalDigits {
			// If the sum is too long, it may be so only between two of several changes.
			return old, errIncremental
		}
		sum.decimals = 1
	}
	return sum.value()
}

// exactSum is the exact sum of numbers.
type exactSum struct {
	exact exact
	// decimals is how many more Decimal128s were added than subtracted.
	decimals int
}

func newExactSum() *exactSum { return &exactSum{exact: exact{coefficient: new(big.Int)}} }

func (s *exactSum) add(values []bson.RawValue) error      { return s.change(values, 1) }
func (s *exactSum) subtract(values []bson.RawValue) error { return s.change(values, -1) }

func (s *exactSum) change(values []bson.RawValue, sign int) error {
	for _, v := range values {
		n, _ := numberOf(v)
		x, ok := n.finite()
		if !ok {
			return fmt.Errorf("%s cannot be added", typeName(v))
		}
		if n.kind == decimalNumber {
			s.decimals += sign
		}
		a, b := alike(s.exact, x)
		b.coefficient = new(big.Int).Mul(b.coefficient, big.NewInt(int64(sign)))
		s.exact = exact{coefficient: b.coefficient.Add(a.coefficient, b.coefficient), exponent: a.exponent}
	}
	return nil
}

// errDecimalTooLong says that a sum would have to be rounded. Then it would depend on the order
// of the numbers.
var errDecimalTooLong = fmt.Errorf("the sum has more than %d digits: round the values, or leave some of them out with where", decimalDigits)

// value is a Decimal128 if one of the numbers is.
func (s *exactSum) value() (bson.RawValue, error) {
	if s.decimals != 0 {
		x := s.exact.shortest()
		if digits(x.coefficient) > decimalDigits {
			return bson.RawValue{}, errDecimalTooLong
		}
		d, err := x.round()
		return decimalValue(d), err
	}
	if !s.exact.coefficient.IsInt64() {
		return bson.RawValue{}, fmt.Errorf("%w: convert the values with decimal()", errTooLarge)
	}
	return integerValue(s.exact.coefficient.Int64()), nil
}

// shortest returns the number without trailing zeros.
func (x exact) shortest() exact {
	if x.coefficient.Sign() == 0 {
		return exact{coefficient: x.coefficient}
	}
	ten, c := big.NewInt(10), new(big.Int).Set(x.coefficient)
	for exponent := x.exponent; ; exponent++ {
		q, r := new(big.Int).QuoRem(c, ten, new(big.Int))
		if r.Sign() != 0 {
			return exact{coefficient: c, exponent: exponent}
		}
		c = q
	}
}

func changeSet(old bson.RawValue, removed, added []bson.RawValue) (bson.RawValue, error) {
	var values []bson.RawValue
	if old.Type == bson.TypeArray {
		values = valuesOf(old)
	}
	slices.SortFunc(added, compareCanonical)
	for _, v := range removed {
		if _, found := slices.BinarySearchFunc(added, v, compareCanonical); !found {
			return old, errIncremental // perhaps another part has the value
		}
	}
	values = append(values, added...)
	slices.SortFunc(values, compareCanonical)
	return arrayOf(bson.RawValue{}, slices.CompactFunc(values, sameBytes)), nil
}

// compareCanonical orders any two values: those with an order by compareValues, others by the
// bytes of their type and value. Only equal bytes are equal.
func compareCanonical(a, b bson.RawValue) int {
	if c, err := compareValues(a, b); err == nil && c != 0 {
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
	if _, ok := numberOf(v); ok {
		return bson.TypeInt64
	}
	return v.Type
}

// String names the total in messages.
func (t total) String() string { return fmt.Sprintf("%s (%s)", t.name, t.kind) }
