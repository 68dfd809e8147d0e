package fold

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

// The kinds of numbers.
const (
	IntegerNumber numberKind = iota
	DoubleNumber
	DecimalNumber
)

// Number is an integer, a double or a Decimal128.
type Number struct {
	Kind       numberKind
	Int        int64
	Double     float64
	Decimal128 bson.Decimal128
}

// NumberOf returns the number in a BSON value; false if the value is not a number.
func NumberOf(v bson.RawValue) (Number, bool) {
	switch v.Type {
	case bson.TypeInt32:
		i, ok := v.Int32OK()
		return Number{Int: int64(i)}, ok
	case bson.TypeInt64:
		i, ok := v.Int64OK()
		return Number{Int: i}, ok
	case bson.TypeDouble:
		f, ok := v.DoubleOK()
		return Number{Kind: DoubleNumber, Double: f}, ok
	case bson.TypeDecimal128:
		d, ok := v.Decimal128OK()
		return Number{Kind: DecimalNumber, Decimal128: d}, ok
	}
	return Number{}, false
}

// CompareNumbers compares numbers of any kind by their exact values. NaN equals itself
// and is less than all others, as in BSON.
func CompareNumbers(a, b Number) int {
	switch {
	case a.Kind == DecimalNumber || b.Kind == DecimalNumber:
		return compareDecimals(a, b)
	case a.Kind == IntegerNumber && b.Kind == IntegerNumber:
		return cmp.Compare(a.Int, b.Int)
	case a.Kind == IntegerNumber:
		return -compareDouble(b.Double, a.Int)
	case b.Kind == IntegerNumber:
		return compareDouble(a.Double, b.Int)
	}
	return cmp.Compare(a.Double, b.Double)
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

// ErrTooLarge says that an integer overflows.
var ErrTooLarge = errors.New("the result exceeds a 64-bit integer")

// AddNumbers implements the operator inc. If one number is a decimal, the sum is a decimal.
// Otherwise, if one is a double, it is a double. The sum of two integers is an int64.
func AddNumbers(old, v bson.RawValue) (bson.RawValue, error) {
	addend, ok := NumberOf(v)
	if !ok {
		return old, fmt.Errorf("the value is %s, not a number", TypeName(v))
	}
	var sum Number
	if Present(old) {
		if sum, ok = NumberOf(old); !ok {
			return old, fmt.Errorf("the field is %s, not a number", TypeName(old))
		}
	}
	switch {
	case sum.Kind == DecimalNumber || addend.Kind == DecimalNumber:
		d, err := AddDecimals(sum, addend)
		if err != nil {
			return old, err
		}
		return DecimalValue(d), nil
	case sum.Kind == DoubleNumber || addend.Kind == DoubleNumber:
		return bson.RawValue{Type: bson.TypeDouble, Value: bsoncore.AppendDouble(nil, sum.double()+addend.double())}, nil
	}
	if addend.Int > 0 && sum.Int > math.MaxInt64-addend.Int || addend.Int < 0 && sum.Int < math.MinInt64-addend.Int {
		return old, ErrTooLarge
	}
	return IntegerValue(sum.Int + addend.Int), nil
}

// double returns an integer or a double as a double. It must not be called for decimals.
func (n Number) double() float64 {
	if n.Kind == IntegerNumber {
		return float64(n.Int)
	}
	return n.Double
}

// IntegerValue returns an int64.
func IntegerValue(i int64) bson.RawValue {
	return bson.RawValue{Type: bson.TypeInt64, Value: bsoncore.AppendInt64(nil, i)}
}

// DecimalValue returns a Decimal128.
func DecimalValue(d bson.Decimal128) bson.RawValue {
	h, l := d.GetBytes()
	return bson.RawValue{Type: bson.TypeDecimal128, Value: bsoncore.AppendDecimal128(nil, h, l)}
}
