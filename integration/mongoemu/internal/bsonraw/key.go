package bsonraw

import (
	"encoding/binary"
	"errors"
	"math"
	"math/big"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// ErrKey says that a Decimal128 cannot be encoded as a key: it is outside the range of a
// double, or the difference to the nearest double is 32,767 or more or has an infinite
// decimal fraction.
var ErrKey = errors.New("encode as an index key: Decimal128 out of the supported range")

// AppendKey appends an order-preserving encoding of v to dst. The encodings of two values
// compare as bytes as [Compare] compares the values. No encoding is a prefix of another.
// An absent field is encoded as null.
func AppendKey(dst []byte, v Value) ([]byte, error) {
	if IsMissing(v) {
		return append(dst, Canonical(bsoncore.TypeNull)), nil
	}
	return appendValueKey(append(dst, Canonical(v.Type)), v)
}

// Invert inverts the bytes of an encoding in place, which reverses its order.
func Invert(key []byte) {
	for i, b := range key {
		key[i] = ^b
	}
}

func appendValueKey(dst []byte, v Value) ([]byte, error) {
	switch Canonical(v.Type) {
	case 30:
		return appendNumberKey(dst, v)
	case 60, 160:
		return appendTextKey(dst, text(v)), nil
	case 70:
		return appendDocumentKey(dst, v.Data)
	case 80:
		return appendArrayKey(dst, v.Data)
	case 90:
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(v.Data)-5))
		return append(dst, v.Data[4:]...), nil
	case 100, 110:
		return append(dst, v.Data...), nil
	case 120:
		return binary.BigEndian.AppendUint64(dst, binary.LittleEndian.Uint64(v.Data)^(1<<63)), nil
	case 130:
		return binary.BigEndian.AppendUint64(dst, binary.LittleEndian.Uint64(v.Data)), nil
	case 140, 150, 170:
		return appendTextKey(dst, v.Data), nil
	}
	return dst, nil
}

// appendTextKey escapes zero bytes and appends two zero bytes as terminator, so that a
// prefix sorts first.
func appendTextKey(dst, s []byte) []byte {
	for _, b := range s {
		if b == 0 {
			dst = append(dst, 0, 0xff)
			continue
		}
		dst = append(dst, b)
	}
	return append(dst, 0, 0)
}

func appendDocumentKey(dst, doc []byte) ([]byte, error) {
	var err error
	for it := NewIter(doc); it.Next(); {
		dst = append(dst, Canonical(it.value.Type))
		dst = append(append(dst, it.key...), 0)
		if dst, err = appendValueKey(dst, it.value); err != nil {
			return nil, err
		}
	}
	return append(dst, 0), nil
}

func appendArrayKey(dst, arr []byte) ([]byte, error) {
	var err error
	for it := NewIter(arr); it.Next(); {
		dst = append(dst, Canonical(it.value.Type))
		if dst, err = appendValueKey(dst, it.value); err != nil {
			return nil, err
		}
	}
	return append(dst, 0), nil
}

// appendNumberKey appends the nearest double in sortable form and then the difference
// between the number and that double. The difference starts with 0x80 if it is zero, with
// a lower byte if it is negative, and with a higher byte if it is positive.
func appendNumberKey(dst []byte, v Value) ([]byte, error) {
	switch v.Type {
	case bsoncore.TypeDouble:
		return append(appendSortableDouble(dst, double(v)), 0x80), nil
	case bsoncore.TypeDecimal128:
		return appendDecimalKey(dst, v)
	}
	n, _ := Int64(v)
	f := float64(n)
	dst = appendSortableDouble(dst, f)
	if f == 1<<63 {
		return appendRemainder(dst, n-math.MaxInt64-1), nil
	}
	return appendRemainder(dst, n-int64(f)), nil
}

func appendSortableDouble(dst []byte, f float64) []byte {
	if f == 0 {
		f = 0 // encodes -0 like 0
	}
	bits := math.Float64bits(f)
	switch {
	case math.IsNaN(f):
		bits = 0
	case f == 0:
		bits = 1 << 63
	case bits>>63 == 1:
		bits = ^bits
	default:
		bits |= 1 << 63
	}
	return binary.BigEndian.AppendUint64(dst, bits)
}

func appendRemainder(dst []byte, rem int64) []byte {
	switch {
	case rem == 0:
		return append(dst, 0x80)
	case rem < 0:
		dst = append(dst, 0x7f)
	default:
		dst = append(dst, 0x81)
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(rem+1<<15))
	return append(dst, 0)
}

func appendDecimalKey(dst []byte, v Value) ([]byte, error) {
	r, special := decimal(v)
	switch special {
	case nan:
		return append(appendSortableDouble(dst, math.NaN()), 0x80), nil
	case 1, -1:
		return append(appendSortableDouble(dst, math.Inf(special)), 0x80), nil
	}
	f, exact := r.Float64()
	if math.IsInf(f, 0) {
		return nil, ErrKey
	}
	dst = appendSortableDouble(dst, f)
	if exact {
		return append(dst, 0x80), nil
	}
	rem := new(big.Rat).Sub(r, new(big.Rat).SetFloat64(f))
	whole := new(big.Int).Div(rem.Num(), rem.Denom()) // rounds down, because the denominator is positive
	if !whole.IsInt64() || whole.Int64() < math.MinInt16 || whole.Int64() >= math.MaxInt16 {
		return nil, ErrKey
	}
	frac := new(big.Rat).Sub(rem, new(big.Rat).SetInt(whole))
	if frac.Sign() == 0 {
		return appendRemainder(dst, whole.Int64()), nil
	}
	digits, finite := frac.FloatPrec()
	if !finite {
		return nil, ErrKey
	}
	marker := byte(0x81)
	if rem.Sign() < 0 {
		marker = 0x7f
	}
	dst = append(dst, marker)
	dst = binary.BigEndian.AppendUint16(dst, uint16(whole.Int64()+1<<15))
	dst = append(dst, frac.FloatString(digits)[2:]...)
	return append(dst, 0), nil
}
