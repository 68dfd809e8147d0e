package projection

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// numberKind is the kind of a BSON number. Both widths of integers are one kind.
type numberKind uint8

const (
	integerNumber numberKind = iota
	doubleNumber
	decimalNumber
)

// number is an integer, a double or a Decimal128.
type number struct {
	kind numberKind
	i    int64
	f    float64
	d    bson.Decimal128
}

// numberOf returns the number in a BSON value; false if the value is not a number.
func numberOf(v bson.RawValue) (number, bool) {
	switch v.Type {
	case bson.TypeInt32:
		i, ok := v.Int32OK()
		return number{i: int64(i)}, ok
	case bson.TypeInt64:
		i, ok := v.Int64OK()
		return number{i: i}, ok
	case bson.TypeDouble:
		f, ok := v.DoubleOK()
		return number{kind: doubleNumber, f: f}, ok
	case bson.TypeDecimal128:
		d, ok := v.Decimal128OK()
		return number{kind: decimalNumber, d: d}, ok
	}
	return number{}, false
}

// compareNumbers compares numbers of any kind by their exact values. NaN equals itself
// and is less than all others, as in BSON.
func compareNumbers(a, b number) int {
	switch {
	case a.kind == decimalNumber || b.kind == decimalNumber:
		return compareDecimals(a, b)
	case a.kind == integerNumber && b.kind == integerNumber:
		return cmp.Compare(a.i, b.i)
	case a.kind == integerNumber:
		return -compareDouble(b.f, a.i)
	case b.kind == integerNumber:
		return compareDouble(a.f, b.i)
	}
	return cmp.Compare(a.f, b.f)
}

func compareDouble(f float64, i int64) int {
	switch {
	case math.IsNaN(f), f < -(1 << 63):
		return -1
	case f >= 1<<63:
		return 1
	}
	whole := math.Floor(f)
	if c := cmp.Compare(int64(whole), i); c != 0 {
		return c
	}
	return cmp.Compare(f, whole)
}

var errTooLarge = errors.New("the result exceeds a 64-bit integer")

// add implements the operator inc. If one number is a decimal, the sum is a decimal.
// Otherwise, if one is a double, it is a double. The sum of two integers is an int64.
func add(old, v bson.RawValue) (bson.RawValue, error) {
	addend, ok := numberOf(v)
	if !ok {
		return old, fmt.Errorf("the value is %s, not a number", typeName(v))
	}
	var sum number
	if present(old) {
		if sum, ok = numberOf(old); !ok {
			return old, fmt.Errorf("the field is %s, not a number", typeName(old))
		}
	}
	switch {
	case sum.kind == decimalNumber || addend.kind == decimalNumber:
		d, err := addDecimals(sum, addend)
		if err != nil {
			return old, err
		}
		return decimalValue(d), nil
	case sum.kind == doubleNumber || addend.kind == doubleNumber:
		return doubleValue(sum.double() + addend.double()), nil
	}
	if addend.i > 0 && sum.i > math.MaxInt64-addend.i || addend.i < 0 && sum.i < math.MinInt64-addend.i {
		return old, errTooLarge
	}
	return integerValue(sum.i + addend.i), nil
}

// double returns an integer or a double as a double. It must not be called for decimals.
func (n number) double() float64 {
	if n.kind == integerNumber {
		return float64(n.i)
	}
	return n.f
}

func integerValue(i int64) bson.RawValue {
	return bson.RawValue{Type: bson.TypeInt64, Value: bsoncore.AppendInt64(nil, i)}
}

func doubleValue(f float64) bson.RawValue {
	return bson.RawValue{Type: bson.TypeDouble, Value: bsoncore.AppendDouble(nil, f)}
}

func decimalValue(d bson.Decimal128) bson.RawValue {
	h, l := d.GetBytes()
	return bson.RawValue{Type: bson.TypeDecimal128, Value: bsoncore.AppendDecimal128(nil, h, l)}
}
