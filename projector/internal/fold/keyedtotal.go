package fold

import (
	"cmp"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// sums are the sums of a total by their keys. A total that is not by key has the key "" only.
type sums map[string]*exactSum

// sum adds the values to sums, or subtracts them. Each value of a total by key is a document of
// one field.
func (t Total) sum(all sums, values []bson.RawValue, sign int) error {
	for _, v := range values {
		var key []byte
		if t.ByKey {
			fields := ReadFields(v.Value)
			key, v, _ = fields.Next()
		}
		if all[string(key)] == nil {
			all[string(key)] = newExactSum()
		}
		if err := all[string(key)].change(sign, v); err != nil {
			return err
		}
	}
	return nil
}

// changeKeys changes a total by key. If a sum is too long, it may be so only between two of
// several changes.
func (t Total) changeKeys(old bson.RawValue, removed, added []bson.RawValue) (bson.RawValue, error) {
	changed := sums{}
	if Present(old) && old.Type != bson.TypeEmbeddedDocument || cmp.Or(t.sum(changed, added, 1), t.sum(changed, removed, -1)) != nil {
		return old, errIncremental
	}
	next, err := t.withKeys(old.Value, changed)
	if err != nil {
		return old, errIncremental
	}
	return next, nil
}

// withKeys adds sums to those of a document. Both have their keys sorted.
func (t Total) withKeys(document []byte, changed sums) (bson.RawValue, error) {
	keys := slices.Sorted(maps.Keys(changed))
	start, dst := bsoncore.AppendDocumentStart(make([]byte, 0, len(document)+64))
	appendSums := func(n int) error {
		for _, key := range keys[:n] {
			number, err := changed[key].atKey(t.Decimals)
			if err != nil {
				return err
			}
			if Present(number) {
				dst = AppendField(dst, key, number)
			}
		}
		keys = keys[n:]
		return nil
	}
	for key, number := range ReadFields(document).All() {
		n := 0
		for n < len(keys) && keys[n] < string(key) {
			n++
		}
		if err := appendSums(n); err != nil {
			return bson.RawValue{}, err
		}
		if len(keys) == 0 || keys[0] != string(key) {
			dst = AppendField(dst, string(key), number)
		} else if err := changed[keys[0]].change(1, number); err != nil {
			return bson.RawValue{}, err
		}
	}
	err := appendSums(len(keys))
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: FinishDocument(dst, start)}, err
}

// atKey is absent if the sum is 0. Its type depends on the sum alone, unless all values are
// Decimal128s: nothing shows of which numbers a sum was made that was 0 in between.
func (s *exactSum) atKey(decimals bool) (bson.RawValue, error) {
	x := s.exact.shortest()
	if x.Coefficient.Sign() == 0 {
		return bson.RawValue{}, nil
	}
	if !decimals && x.Exponent >= 0 {
		if whole := x.Lowered(0).Coefficient; whole.IsInt64() {
			return IntegerValue(whole.Int64()), nil
		}
	}
	return (&exactSum{exact: x, decimals: 1}).value()
}
