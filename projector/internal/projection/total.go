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
}

// totalKind is how a total is computed. None of them depends on the order of the parts.
type totalKind string

const (
	// totalSum adds whole numbers and Decimal128s. It is a Decimal128 if one of them is, and
	// exact before it is rounded once.
	totalSum totalKind = "sum"
	// totalCount counts.
	totalCount totalKind = "count"
	// totalMin and totalMax keep the least and the greatest value.
	totalMin totalKind = "min"
	totalMax totalKind = "max"
	// totalSet keeps each value once, sorted. A list counts with its elements.
	totalSet totalKind = "set"
)

var totalKinds = []totalKind{totalSum, totalCount, totalMin, totalMax, totalSet}

// change returns the total after some parts have added other values. The error is
// [errIncremental] if only all parts show the result.
func (t total) change(old bson.RawValue, removed, added []bson.RawValue) (bson.RawValue, error) {
	switch t.kind {
	case totalSum, totalCount:
		return changeSum(old, removed, added)
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
func changeSum(old bson.RawValue, removed, added []bson.RawValue) (bson.RawValue, error) {
	sum := exact{coefficient: new(big.Int)}
	if present(old) {
		n, ok := numberOf(old)
		if ok {
			sum, ok = n.finite()
		}
		if !ok || digits(sum.coefficient) >= decimalDigits {
			return old, errIncremental // it may be rounded, or somebody has changed it
		}
	}
	decimals := 0
	for i, values := range [2][]bson.RawValue{added, removed} {
		for _, v := range values {
			n, _ := numberOf(v)
			x, ok := n.finite()
			if !ok {
				return old, errIncremental
			}
			if n.kind == decimalNumber {
				decimals += 1 - 2*i
			}
			a, b := alike(sum, x)
			if i == 0 {
				sum = exact{coefficient: new(big.Int).Add(a.coefficient, b.coefficient), exponent: a.exponent}
			} else {
				sum = exact{coefficient: new(big.Int).Sub(a.coefficient, b.coefficient), exponent: a.exponent}
			}
		}
	}
	switch {
	case decimals < 0:
		return old, errIncremental // perhaps no Decimal128 is left
	case decimals > 0 || old.Type == bson.TypeDecimal128:
		d, err := sum.shortest().round()
		return decimalValue(d), err
	case !sum.coefficient.IsInt64():
		return old, errSumTooLarge
	}
	return integerValue(sum.coefficient.Int64()), nil
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
	for _, v := range removed {
		if !slices.ContainsFunc(added, func(a bson.RawValue) bool { return sameBytes(a, v) }) {
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
