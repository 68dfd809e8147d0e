package expr

import (
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

func in(v []bsonraw.Value) (bsonraw.Value, error) {
	if v[1].Type != bsoncore.TypeArray {
		return bsonraw.Missing, mongoerr.New(40081, "$in requires an array as a second argument, found: %s", bsonraw.TypeName(v[1].Type))
	}
	for it := bsonraw.NewIter(v[1].Data); it.Next(); {
		if bsonraw.Equal(v[0], it.Value()) {
			return bsonraw.BoolValue(true), nil
		}
	}
	return bsonraw.BoolValue(false), nil
}

// spread returns the operands of $max, $min and $sum. A single array is replaced by
// its elements.
func spread(values []bsonraw.Value) []bsonraw.Value {
	if len(values) == 1 && values[0].Type == bsoncore.TypeArray {
		return bsonraw.Elements(values[0].Data)
	}
	return values
}

func extreme(name string) func([]bsonraw.Value) (bsonraw.Value, error) {
	sign := 1
	if name == "$min" {
		sign = -1
	}
	return func(values []bsonraw.Value) (bsonraw.Value, error) {
		best := bsonraw.Null
		for _, v := range spread(values) {
			if bsonraw.IsNullish(v) {
				continue
			}
			if bsonraw.IsNullish(best) || bsonraw.Compare(v, best)*sign > 0 {
				best = v
			}
		}
		return best, nil
	}
}

func sum(values []bsonraw.Value) (bsonraw.Value, error) {
	total := bsonraw.Int32Value(0)
	for _, v := range spread(values) {
		if !bsonraw.IsNumber(v) {
			continue
		}
		var err error
		if total, err = fold(Add, "$sum", total, []bsonraw.Value{v}); err != nil {
			return total, err
		}
	}
	return total, nil
}

// bsonSize is $bsonSize: https://www.mongodb.com/docs/manual/reference/operator/aggregation/bsonSize/
func bsonSize(v []bsonraw.Value) (bsonraw.Value, error) {
	switch {
	case bsonraw.IsNullish(v[0]):
		return bsonraw.Null, nil
	case v[0].Type != bsoncore.TypeEmbeddedDocument:
		return bsonraw.Missing, mongoerr.New(31393, "$bsonSize requires a document input, found: %s", bsonraw.TypeName(v[0].Type))
	}
	return bsonraw.Int32Value(int32(len(v[0].Data))), nil
}
