package bsonraw

import (
	"bytes"
	"cmp"
	"encoding/binary"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Missing is the value of an absent field. It sorts below null, like undefined, and
// counts as null where MongoDB does so.
var Missing = Value{Type: 0}

// IsMissing reports whether v is an absent field.
func IsMissing(v Value) bool { return v.Type == 0 }

// IsNullish reports whether v is absent, null or undefined.
func IsNullish(v Value) bool {
	return v.Type == 0 || v.Type == bsoncore.TypeNull || v.Type == bsoncore.TypeUndefined
}

// Canonical returns the rank of a type in MongoDB's comparison order. Types with the same
// rank compare by value.
func Canonical(t bsoncore.Type) byte {
	switch t {
	case bsoncore.TypeMinKey:
		return 10
	case 0, bsoncore.TypeUndefined:
		return 15
	case bsoncore.TypeNull:
		return 20
	case bsoncore.TypeDouble, bsoncore.TypeInt32, bsoncore.TypeInt64, bsoncore.TypeDecimal128:
		return 30
	case bsoncore.TypeString, bsoncore.TypeSymbol:
		return 60
	case bsoncore.TypeEmbeddedDocument:
		return 70
	case bsoncore.TypeArray:
		return 80
	case bsoncore.TypeBinary:
		return 90
	case bsoncore.TypeObjectID:
		return 100
	case bsoncore.TypeBoolean:
		return 110
	case bsoncore.TypeDateTime:
		return 120
	case bsoncore.TypeTimestamp:
		return 130
	case bsoncore.TypeRegex:
		return 140
	case bsoncore.TypeDBPointer:
		return 150
	case bsoncore.TypeJavaScript:
		return 160
	case bsoncore.TypeCodeWithScope:
		return 170
	}
	return 240 // MaxKey
}

// Compare returns -1, 0 or +1 in MongoDB's order. Numbers of all types compare by value.
// NaN is below all other numbers.
func Compare(a, b Value) int {
	ca, cb := Canonical(a.Type), Canonical(b.Type)
	if ca != cb {
		return cmp.Compare(ca, cb)
	}
	switch ca {
	case 30:
		return compareNumbers(a, b)
	case 60, 160:
		return bytes.Compare(text(a), text(b))
	case 70:
		return CompareDocuments(a.Data, b.Data)
	case 80:
		return compareArrays(a.Data, b.Data)
	case 90:
		return compareBinary(a.Data, b.Data)
	case 100, 110:
		return bytes.Compare(a.Data, b.Data)
	case 120:
		return cmp.Compare(int64(binary.LittleEndian.Uint64(a.Data)), int64(binary.LittleEndian.Uint64(b.Data)))
	case 130:
		return cmp.Compare(binary.LittleEndian.Uint64(a.Data), binary.LittleEndian.Uint64(b.Data))
	case 140, 150, 170:
		return bytes.Compare(a.Data, b.Data)
	}
	return 0
}

// text returns the content of a string, symbol or code value.
func text(v Value) []byte { return v.Data[4 : len(v.Data)-1] }

// Text returns the content of a string or symbol without a copy.
func Text(v Value) []byte { return text(v) }

// CompareDocuments compares two documents element by element: by type, then by name, then
// by value. A prefix sorts first.
func CompareDocuments(a, b []byte) int {
	return compareElements(a, b, true)
}

// compareArrays compares two arrays like documents, but ignores the names.
func compareArrays(a, b []byte) int {
	return compareElements(a, b, false)
}

func compareElements(a, b []byte, named bool) int {
	ia, ib := NewIter(a), NewIter(b)
	for {
		na, nb := ia.Next(), ib.Next()
		switch {
		case !na && !nb:
			return 0
		case !na:
			return -1
		case !nb:
			return 1
		}
		if named {
			c := cmp.Or(cmp.Compare(Canonical(ia.value.Type), Canonical(ib.value.Type)), bytes.Compare(ia.key, ib.key))
			if c != 0 {
				return c
			}
		}
		if c := Compare(ia.value, ib.value); c != 0 {
			return c
		}
	}
}

// compareBinary compares by length, then by subtype, then by bytes.
func compareBinary(a, b []byte) int {
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	return bytes.Compare(a[4:], b[4:])
}

// Equal reports whether two values compare as equal: 1, 1.0 and NumberLong(1) are equal.
func Equal(a, b Value) bool {
	if a.Type == b.Type && bytes.Equal(a.Data, b.Data) {
		return true
	}
	return Compare(a, b) == 0
}

// Identical reports whether two values have the same type and the same bytes.
func Identical(a, b Value) bool {
	return a.Type == b.Type && bytes.Equal(a.Data, b.Data)
}
