package bsonraw

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/big"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// IsNumber reports whether v has one of the four numeric types.
func IsNumber(v Value) bool { return Canonical(v.Type) == 30 }

// Int64 returns v as an int64. ok is false if v is not a number, has a fraction, or does
// not fit.
func Int64(v Value) (n int64, ok bool) {
	switch v.Type {
	case bsoncore.TypeInt32:
		return int64(int32(binary.LittleEndian.Uint32(v.Data))), true
	case bsoncore.TypeInt64:
		return int64(binary.LittleEndian.Uint64(v.Data)), true
	case bsoncore.TypeDouble:
		f := double(v)
		if f != math.Trunc(f) || f < -(1<<63) || f >= 1<<63 {
			return 0, false
		}
		return int64(f), true
	case bsoncore.TypeDecimal128:
		r, special := decimal(v)
		if special != 0 || !r.IsInt() || !r.Num().IsInt64() {
			return 0, false
		}
		return r.Num().Int64(), true
	}
	return 0, false
}

// Float64 returns v as a double, rounded; 0 if v is not a number.
func Float64(v Value) float64 {
	switch v.Type {
	case bsoncore.TypeInt32, bsoncore.TypeInt64:
		n, _ := Int64(v)
		return float64(n)
	case bsoncore.TypeDouble:
		return double(v)
	case bsoncore.TypeDecimal128:
		r, special := decimal(v)
		switch special {
		case 0:
			f, _ := r.Float64()
			return f
		case nan:
			return math.NaN()
		default:
			return math.Inf(special)
		}
	}
	return 0
}

// Truthy returns v as a boolean, by MongoDB's rules. False, zero, null, undefined and
// absent are false; everything else is true.
func Truthy(v Value) bool {
	switch v.Type {
	case 0, bsoncore.TypeNull, bsoncore.TypeUndefined:
		return false
	case bsoncore.TypeBoolean:
		return v.Data[0] != 0
	case bsoncore.TypeDouble, bsoncore.TypeInt32, bsoncore.TypeInt64, bsoncore.TypeDecimal128:
		return Float64(v) != 0
	}
	return true
}

// IsNaN reports whether v is a double or decimal NaN.
func IsNaN(v Value) bool {
	switch v.Type {
	case bsoncore.TypeDouble:
		return math.IsNaN(double(v))
	case bsoncore.TypeDecimal128:
		_, special := decimal(v)
		return special == nan
	}
	return false
}

func double(v Value) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(v.Data))
}

// nan marks a NaN decimal. +1 and -1 mark the infinities.
const nan = 2

// decimal returns a Decimal128 as an exact fraction, or the mark of a special value.
func decimal(v Value) (r *big.Rat, special int) {
	d := bson.NewDecimal128(binary.LittleEndian.Uint64(v.Data[8:]), binary.LittleEndian.Uint64(v.Data))
	if d.IsNaN() {
		return nil, nan
	}
	if inf := d.IsInf(); inf != 0 {
		return nil, inf
	}
	mantissa, exponent, err := d.BigInt()
	if err != nil {
		return nil, nan
	}
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exponent, -exponent))), nil)
	if exponent >= 0 {
		return new(big.Rat).SetInt(mantissa.Mul(mantissa, power)), 0
	}
	return new(big.Rat).SetFrac(mantissa, power), 0
}

func compareNumbers(a, b Value) int {
	ai, bi := isInteger(a.Type), isInteger(b.Type)
	switch {
	case ai && bi:
		x, _ := Int64(a)
		y, _ := Int64(b)
		return cmp.Compare(x, y)
	case a.Type == bsoncore.TypeDouble && b.Type == bsoncore.TypeDouble:
		return cmp.Compare(double(a), double(b))
	case ai && b.Type == bsoncore.TypeDouble:
		x, _ := Int64(a)
		return compareIntFloat(x, double(b))
	case bi && a.Type == bsoncore.TypeDouble:
		y, _ := Int64(b)
		return -compareIntFloat(y, double(a))
	}
	return compareExact(a, b)
}

func isInteger(t bsoncore.Type) bool {
	return t == bsoncore.TypeInt32 || t == bsoncore.TypeInt64
}

func compareIntFloat(n int64, f float64) int {
	switch {
	case math.IsNaN(f):
		return 1
	case f >= 1<<63:
		return -1
	case f < -(1 << 63):
		return 1
	}
	whole := math.Trunc(f)
	if c := cmp.Compare(n, int64(whole)); c != 0 {
		return c
	}
	return cmp.Compare(whole, f)
}

// compareExact compares two numbers of which at least one is a decimal.
func compareExact(a, b Value) int {
	x, xs := rational(a)
	y, ys := rational(b)
	if xs != 0 || ys != 0 {
		return cmp.Compare(specialRank(xs), specialRank(ys))
	}
	return x.Cmp(y)
}

func specialRank(special int) int {
	if special == nan {
		return -2
	}
	return special
}

// rational returns a number as an exact fraction, or the mark of a special value.
func rational(v Value) (*big.Rat, int) {
	switch v.Type {
	case bsoncore.TypeDecimal128:
		return decimal(v)
	case bsoncore.TypeDouble:
		f := double(v)
		switch {
		case math.IsNaN(f):
			return nil, nan
		case math.IsInf(f, 1):
			return nil, 1
		case math.IsInf(f, -1):
			return nil, -1
		}
		return new(big.Rat).SetFloat64(f), 0
	}
	n, _ := Int64(v)
	return new(big.Rat).SetInt64(n), 0
}
