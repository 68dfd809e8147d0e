package projection

import (
	"bytes"
	"cmp"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// equalValues reports whether pull and addToSet treat two values as equal. Numbers are
// equal by value whatever their type, and NaN equals itself. Documents are equal if they
// have the same fields in any order, because maps from an expression have no order. Arrays
// are equal element by element. All other values are equal if type and value are the same.
func equalValues(a, b bson.RawValue, m *meter) bool {
	m.spend(fieldWork, 0)
	m.compared(len(a.Value), len(b.Value))
	if sameBytes(a, b) {
		return true
	}
	if n, ok := numberOf(a); ok {
		other, ok := numberOf(b)
		return ok && m.compareNumbers(n, other) == 0
	}
	if a.Type != b.Type {
		return false
	}
	switch a.Type {
	case bson.TypeEmbeddedDocument:
		return equalDocuments(a.Value, b.Value, m)
	case bson.TypeArray:
		return equalArrays(a.Value, b.Value, m)
	}
	return false
}

func equalDocuments(a, b []byte, m *meter) bool {
	if m.count(a) != m.count(b) {
		return false
	}
	theirs := finder{doc: b, meter: m}
	for name, value := range m.fields(a).all() {
		other, ok := theirs.find(alias(name))
		if !ok || !equalValues(value, other, m) {
			return false
		}
	}
	return true
}

func equalArrays(a, b []byte, m *meter) bool {
	r, s := m.fields(a), m.fields(b)
	for {
		_, v, more := r.next()
		_, w, alsoMore := s.next()
		if !more || !alsoMore {
			return more == alsoMore
		}
		if !equalValues(v, w, m) {
			return false
		}
	}
}

// compareValues orders two values for min and max: numbers by value whatever their type
// (NaN is the lowest, as in BSON), strings by their bytes, dates by time, false before
// true. All other pairs are an error.
func compareValues(a, b bson.RawValue) (int, error) {
	if n, ok := numberOf(a); ok {
		if m, ok := numberOf(b); ok {
			return compareNumbers(n, m), nil
		}
	}
	if a.Type == b.Type {
		switch a.Type {
		case bson.TypeString:
			const length = 4
			return bytes.Compare(a.Value[length:], b.Value[length:]), nil // without copies
		case bson.TypeDateTime:
			return cmp.Compare(a.DateTime(), b.DateTime()), nil
		case bson.TypeBoolean:
			return bytes.Compare(a.Value, b.Value), nil
		}
	}
	return 0, fmt.Errorf("%s and %s have no order", typeName(a), typeName(b))
}

// typeName names the type of a value as MongoDB's $type does.
func typeName(v bson.RawValue) string {
	switch v.Type {
	case bson.TypeInt32:
		return "int"
	case bson.TypeInt64:
		return "long"
	case bson.TypeEmbeddedDocument:
		return "object"
	case bson.TypeBoolean:
		return "bool"
	case bson.TypeDateTime:
		return "date"
	case bson.TypeObjectID:
		return "objectId"
	case bson.TypeBinary:
		return "binData"
	case bson.TypeDecimal128:
		return "decimal"
	}
	return v.Type.String()
}
