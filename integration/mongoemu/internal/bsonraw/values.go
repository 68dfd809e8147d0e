package bsonraw

import (
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Null is the null value.
var Null = Value{Type: bsoncore.TypeNull}

// Int32Value returns a 32-bit integer.
func Int32Value(n int32) Value {
	return Value{Type: bsoncore.TypeInt32, Data: bsoncore.AppendInt32(nil, n)}
}

// Int64Value returns a 64-bit integer.
func Int64Value(n int64) Value {
	return Value{Type: bsoncore.TypeInt64, Data: bsoncore.AppendInt64(nil, n)}
}

// DoubleValue returns a double.
func DoubleValue(f float64) Value {
	return Value{Type: bsoncore.TypeDouble, Data: bsoncore.AppendDouble(nil, f)}
}

// StringValue returns a string.
func StringValue(s string) Value {
	return Value{Type: bsoncore.TypeString, Data: bsoncore.AppendString(nil, s)}
}

// BoolValue returns a boolean.
func BoolValue(b bool) Value {
	return Value{Type: bsoncore.TypeBoolean, Data: bsoncore.AppendBoolean(nil, b)}
}

// DateValue returns a date from milliseconds since the Unix epoch.
func DateValue(ms int64) Value {
	return Value{Type: bsoncore.TypeDateTime, Data: bsoncore.AppendDateTime(nil, ms)}
}

// TimestampValue returns a timestamp.
func TimestampValue(ts bson.Timestamp) Value {
	return Value{Type: bsoncore.TypeTimestamp, Data: bsoncore.AppendTimestamp(nil, ts.T, ts.I)}
}

// ObjectIDValue returns an ObjectId.
func ObjectIDValue(id bson.ObjectID) Value {
	return Value{Type: bsoncore.TypeObjectID, Data: bsoncore.AppendObjectID(nil, id)}
}

// DocumentValue returns an embedded document.
func DocumentValue(doc []byte) Value {
	return Value{Type: bsoncore.TypeEmbeddedDocument, Data: doc}
}

// MustMarshal encodes v and panics on an error. It is for literals in the program, not
// for input.
func MustMarshal(v any) bson.Raw {
	raw, err := bson.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// TypeName returns the name of a type in the server's messages and in $type.
func TypeName(t bsoncore.Type) string {
	switch t {
	case 0:
		return "missing"
	case bsoncore.TypeDouble:
		return "double"
	case bsoncore.TypeString:
		return "string"
	case bsoncore.TypeEmbeddedDocument:
		return "object"
	case bsoncore.TypeArray:
		return "array"
	case bsoncore.TypeBinary:
		return "binData"
	case bsoncore.TypeUndefined:
		return "undefined"
	case bsoncore.TypeObjectID:
		return "objectId"
	case bsoncore.TypeBoolean:
		return "bool"
	case bsoncore.TypeDateTime:
		return "date"
	case bsoncore.TypeNull:
		return "null"
	case bsoncore.TypeRegex:
		return "regex"
	case bsoncore.TypeDBPointer:
		return "dbPointer"
	case bsoncore.TypeJavaScript:
		return "javascript"
	case bsoncore.TypeSymbol:
		return "symbol"
	case bsoncore.TypeCodeWithScope:
		return "javascriptWithScope"
	case bsoncore.TypeInt32:
		return "int"
	case bsoncore.TypeTimestamp:
		return "timestamp"
	case bsoncore.TypeInt64:
		return "long"
	case bsoncore.TypeDecimal128:
		return "decimal"
	case bsoncore.TypeMinKey:
		return "minKey"
	case bsoncore.TypeMaxKey:
		return "maxKey"
	}
	return "unknown"
}
