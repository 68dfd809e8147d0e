package fold

import (
	"bytes"
	"cmp"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// CompareValues orders two values for min and max: numbers by value whatever their type
// (NaN is the lowest, as in BSON), strings by their bytes, dates by time, false before
// true. All other pairs are an error.
func CompareValues(a, b bson.RawValue) (int, error) {
	if n, ok := NumberOf(a); ok {
		if m, ok := NumberOf(b); ok {
			return CompareNumbers(n, m), nil
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
	return 0, fmt.Errorf("%s and %s have no order", TypeName(a), TypeName(b))
}

// TypeName names the type of a value as MongoDB's $type does.
func TypeName(v bson.RawValue) string {
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
