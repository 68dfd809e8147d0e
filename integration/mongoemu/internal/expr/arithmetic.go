package expr

import (
	"math"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// Arith is a binary arithmetic operation.
type Arith byte

// These are the operations that updates and expressions share.
const (
	Add Arith = iota
	Subtract
)

// Apply computes a op b with MongoDB's result types. The result is an int, a long if an
// operand is a long or an int overflows, and a double if an operand is a double. ok is
// false if a long overflows. The caller must refuse Decimal128.
func Apply(op Arith, a, b bsonraw.Value) (v bsonraw.Value, ok bool) {
	if a.Type == bsoncore.TypeDouble || b.Type == bsoncore.TypeDouble {
		x, y := bsonraw.Float64(a), bsonraw.Float64(b)
		if op == Subtract {
			y = -y
		}
		return bsonraw.DoubleValue(x + y), true
	}
	x, _ := bsonraw.Int64(a)
	y, _ := bsonraw.Int64(b)
	n, ok := integer(op, x, y)
	if !ok {
		return bsonraw.Missing, false
	}
	if a.Type == bsoncore.TypeInt32 && b.Type == bsoncore.TypeInt32 && n == int64(int32(n)) {
		return bsonraw.Int32Value(int32(n)), true
	}
	return bsonraw.Int64Value(n), true
}

func integer(op Arith, x, y int64) (int64, bool) {
	if op == Subtract {
		n := x - y
		return n, (n < x) == (y > 0)
	}
	n := x + y
	return n, (n > x) == (y > 0)
}

// fold applies op to the operands from left to right. If an operand is null, the result
// is null. A long that overflows becomes a double, as in MongoDB's aggregation.
func fold(op Arith, name string, start bsonraw.Value, values []bsonraw.Value) (bsonraw.Value, error) {
	result := start
	for _, v := range values {
		switch {
		case bsonraw.IsNullish(v):
			return bsonraw.Null, nil
		case v.Type == bsoncore.TypeDecimal128:
			return bsonraw.Missing, mongoerr.Lacking("%s of Decimal128", name)
		case !bsonraw.IsNumber(v):
			return bsonraw.Missing, mongoerr.New(mongoerr.TypeMismatch, "%s only supports numeric types, not %s", name, bsonraw.TypeName(v.Type))
		}
		next, ok := Apply(op, result, v)
		if !ok {
			next, _ = Apply(op, bsonraw.DoubleValue(bsonraw.Float64(result)), v)
		}
		result = next
	}
	return result, nil
}

// add implements $add. It also adds milliseconds to a date.
func add(values []bsonraw.Value) (bsonraw.Value, error) {
	var date *bsonraw.Value
	var numbers []bsonraw.Value
	for _, v := range values {
		if v.Type == bsoncore.TypeDateTime {
			if date != nil {
				return bsonraw.Missing, mongoerr.New(16612, "only one date allowed in an $add expression")
			}
			date = &v
			continue
		}
		numbers = append(numbers, v)
	}
	sum, err := fold(Add, "$add", bsonraw.Int32Value(0), numbers)
	if err != nil || date == nil || bsonraw.IsNullish(sum) {
		return sum, err
	}
	return bsonraw.DateValue(date.DateTime() + int64(math.Round(bsonraw.Float64(sum)))), nil
}

func subtract(v []bsonraw.Value) (bsonraw.Value, error) {
	switch {
	case bsonraw.IsNullish(v[0]) || bsonraw.IsNullish(v[1]):
		return bsonraw.Null, nil
	case v[0].Type == bsoncore.TypeDateTime && v[1].Type == bsoncore.TypeDateTime:
		return bsonraw.Int64Value(v[0].DateTime() - v[1].DateTime()), nil
	case v[0].Type == bsoncore.TypeDateTime && bsonraw.IsNumber(v[1]):
		return bsonraw.DateValue(v[0].DateTime() - int64(math.Round(bsonraw.Float64(v[1])))), nil
	case !bsonraw.IsNumber(v[0]) || !bsonraw.IsNumber(v[1]):
		return bsonraw.Missing, mongoerr.New(mongoerr.TypeMismatch, "can't $subtract %s from %s", bsonraw.TypeName(v[1].Type), bsonraw.TypeName(v[0].Type))
	}
	if v[0].Type == bsoncore.TypeDecimal128 {
		return bsonraw.Missing, mongoerr.Lacking("$subtract of Decimal128")
	}
	return fold(Subtract, "$subtract", v[0], v[1:])
}
