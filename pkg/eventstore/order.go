package eventstore

import (
	"bytes"
	"cmp"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Compare orders two positions as the index does. known is false if the collection has a
// collation of its own or a position has a type that no valid key has. The collation is
// known only after the first range has been opened.
func (r *Reader) Compare(a, b Position) (order int, known bool) {
	if r.collated.Load() {
		return 0, false
	}
	order, known = compareValues(a.AggregateID, b.AggregateID)
	if order != 0 || !known {
		return order, known
	}
	return compareValues(a.EventID, b.EventID)
}

// The ranks of types in MongoDB's order, for the types that a valid key or the bound of an
// aggregate can have:
// https://www.mongodb.com/docs/manual/reference/bson-type-comparison-order/
const (
	rankMinKey = iota + 1
	rankNumber
	rankString
	rankBinary
	rankObjectID
	rankMaxKey
)

func rankOf(v bson.RawValue) int {
	switch v.Type {
	case bson.TypeMinKey:
		return rankMinKey
	case bson.TypeMaxKey:
		return rankMaxKey
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble:
		return rankNumber
	case bson.TypeString:
		return rankString
	case bson.TypeBinary:
		return rankBinary
	case bson.TypeObjectID:
		return rankObjectID
	}
	return 0
}

// compareValues orders two values by MongoDB's simple collation. known is false for types
// that no valid key has.
func compareValues(a, b bson.RawValue) (order int, known bool) {
	first, second := rankOf(a), rankOf(b)
	switch {
	case first == 0 || second == 0:
		return 0, false
	case first != second:
		return cmp.Compare(first, second), true
	}
	switch first {
	case rankNumber:
		return compareNumbers(a, b), true
	case rankString:
		return cmp.Compare(a.StringValue(), b.StringValue()), true
	case rankBinary:
		kind, data := a.Binary()
		otherKind, otherData := b.Binary()
		return cmp.Or(cmp.Compare(len(data), len(otherData)), cmp.Compare(kind, otherKind), bytes.Compare(data, otherData)), true
	default:
		return bytes.Compare(a.Value, b.Value), true
	}
}

func compareNumbers(a, b bson.RawValue) int {
	if a.Type == bson.TypeDouble || b.Type == bson.TypeDouble {
		return cmp.Compare(float(a), float(b))
	}
	return cmp.Compare(a.AsInt64(), b.AsInt64())
}

func float(v bson.RawValue) float64 {
	if v.Type == bson.TypeDouble {
		return v.Double()
	}
	return float64(v.AsInt64())
}
