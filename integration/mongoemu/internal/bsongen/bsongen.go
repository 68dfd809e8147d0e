// Package bsongen makes BSON values and documents for the tests of its sibling packages. The
// random ones have few names and few values, so that equal ones are likely.
package bsongen

import (
	"math"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
)

// Parse returns a document in extended JSON as BSON.
func Parse(t *testing.T, json string) []byte {
	t.Helper()
	var d bson.D
	if err := bson.UnmarshalExtJSON([]byte(json), false, &d); err != nil {
		t.Fatalf("%s: %v", json, err)
	}
	return bsonraw.MustMarshal(d)
}

// Names are the field names of generated documents.
var Names = []string{"a", "b", "c"}

// Scalar generates a value that is neither a document nor an array.
func Scalar() *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		switch rapid.IntRange(0, 13).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2, 3, 4:
			return int32(rapid.IntRange(-2, 4).Draw(t, "int"))
		case 5, 6:
			return rapid.SampledFrom([]int64{0, 1, 3, -1, 1 << 53, 1<<53 + 1, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1}).Draw(t, "long")
		case 7:
			return rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, 1.5, -2.5, 1 << 53, 1 << 63, math.Inf(1), math.Inf(-1), math.NaN(), 3}).Draw(t, "double")
		case 8, 9:
			return rapid.SampledFrom([]string{"", "x", "xy", "x\x00", "x\x00y", "y", "\xff"}).Draw(t, "string")
		case 10:
			return bson.ObjectID{11: byte(rapid.IntRange(0, 255).Draw(t, "oid"))}
		case 11:
			return bson.DateTime(rapid.Int64Range(-2, 2).Draw(t, "date"))
		case 12:
			return bson.Binary{Subtype: byte(rapid.IntRange(0, 1).Draw(t, "subtype")), Data: rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "bytes")}
		}
		return bson.Timestamp{T: uint32(rapid.IntRange(0, 2).Draw(t, "t")), I: uint32(rapid.IntRange(0, 2).Draw(t, "i"))}
	})
}

// Value generates any value, with at most depth nested levels.
func Value(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		if depth > 0 {
			switch rapid.IntRange(0, 4).Draw(t, "nested") {
			case 0:
				return Document(depth-1, Names).Draw(t, "document")
			case 1:
				return bson.A(rapid.SliceOfN(Value(depth-1), 0, 3).Draw(t, "array"))
			}
		}
		return Scalar().Draw(t, "scalar")
	})
}

// Document generates a document with a random subset of names.
func Document(depth int, names []string) *rapid.Generator[bson.D] {
	return rapid.Custom(func(t *rapid.T) bson.D {
		d := bson.D{}
		for _, name := range names {
			if rapid.Bool().Draw(t, "has "+name) {
				d = append(d, bson.E{Key: name, Value: Value(depth).Draw(t, name)})
			}
		}
		return d
	})
}

// Decimal generates a Decimal128, mostly equal or close to numbers that Scalar generates.
func Decimal() *rapid.Generator[bson.Decimal128] {
	return rapid.Custom(func(t *rapid.T) bson.Decimal128 {
		s := rapid.SampledFrom([]string{
			"0", "1", "1.0", "1.5", "-2.5", "0.1", "-0.1", "3", "9007199254740993", "9007199254740992.5",
			"9223372036854775807", "9223372036854775807.5", "-9223372036854775808", "NaN", "Infinity", "-Infinity",
		}).Draw(t, "decimal")
		d, err := bson.ParseDecimal128(s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	})
}
