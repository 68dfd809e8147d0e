package expr

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

func concat(values []bsonraw.Value) (bsonraw.Value, error) {
	var b strings.Builder
	for _, v := range values {
		switch {
		case bsonraw.IsNullish(v):
			return bsonraw.Null, nil
		case v.Type != bsoncore.TypeString:
			return bsonraw.Missing, mongoerr.New(16702, "$concat only supports strings, not %s", bsonraw.TypeName(v.Type))
		}
		b.Write(bsonraw.Text(v))
	}
	return bsonraw.StringValue(b.String()), nil
}

func toString(v []bsonraw.Value) (bsonraw.Value, error) {
	switch v[0].Type {
	case 0, bsoncore.TypeNull, bsoncore.TypeUndefined:
		return bsonraw.Null, nil
	case bsoncore.TypeString:
		return v[0], nil
	case bsoncore.TypeInt32, bsoncore.TypeInt64:
		n, _ := bsonraw.Int64(v[0])
		return bsonraw.StringValue(strconv.FormatInt(n, 10)), nil
	case bsoncore.TypeDouble:
		return bsonraw.StringValue(strconv.FormatFloat(bsonraw.Float64(v[0]), 'g', -1, 64)), nil
	case bsoncore.TypeBoolean:
		return bsonraw.StringValue(strconv.FormatBool(bsonraw.Truthy(v[0]))), nil
	case bsoncore.TypeObjectID:
		return bsonraw.StringValue(hex.EncodeToString(v[0].Data)), nil
	case bsoncore.TypeDateTime:
		return bsonraw.StringValue(bsonraw.FormatDate(v[0].DateTime())), nil
	}
	return bsonraw.Missing, mongoerr.New(241, "Unsupported conversion from %s to string in $convert with no onError value", bsonraw.TypeName(v[0].Type))
}

func toNumber(name string) func([]bsonraw.Value) (bsonraw.Value, error) {
	fail := func(v bsonraw.Value) (bsonraw.Value, error) {
		return bsonraw.Missing, mongoerr.New(241, "%s cannot convert %s in $convert with no onError value", name, bsonraw.Format(v))
	}
	return func(args []bsonraw.Value) (bsonraw.Value, error) {
		v := args[0]
		switch {
		case bsonraw.IsNullish(v):
			return bsonraw.Null, nil
		case v.Type == bsoncore.TypeString && name == "$toDouble":
			f, err := strconv.ParseFloat(string(bsonraw.Text(v)), 64)
			if err != nil {
				return fail(v)
			}
			return bsonraw.DoubleValue(f), nil
		case v.Type == bsoncore.TypeString:
			n, err := strconv.ParseInt(string(bsonraw.Text(v)), 10, 64)
			if err != nil {
				return fail(v)
			}
			v = bsonraw.Int64Value(n)
		case v.Type == bsoncore.TypeBoolean:
			n := int32(0)
			if bsonraw.Truthy(v) {
				n = 1
			}
			v = bsonraw.Int32Value(n)
		case v.Type == bsoncore.TypeDateTime && name != "$toInt":
			v = bsonraw.Int64Value(v.DateTime())
		case !bsonraw.IsNumber(v):
			return fail(v)
		}
		if name == "$toDouble" {
			return bsonraw.DoubleValue(bsonraw.Float64(v)), nil
		}
		n, ok := bsonraw.Int64(v)
		if !ok {
			f := math.Trunc(bsonraw.Float64(v))
			if math.IsNaN(f) || f < -(1<<63) || f >= 1<<63 {
				return fail(v)
			}
			n = int64(f)
		}
		if name == "$toLong" {
			return bsonraw.Int64Value(n), nil
		}
		if n != int64(int32(n)) {
			return fail(v)
		}
		return bsonraw.Int32Value(int32(n)), nil
	}
}

func changeCase(name string) func([]bsonraw.Value) (bsonraw.Value, error) {
	change := strings.ToLower
	if name == "$toUpper" {
		change = strings.ToUpper
	}
	return func(v []bsonraw.Value) (bsonraw.Value, error) {
		s, err := toString(v)
		if err != nil {
			return s, err
		}
		if bsonraw.IsNullish(s) {
			return bsonraw.StringValue(""), nil
		}
		return bsonraw.StringValue(change(string(bsonraw.Text(s)))), nil
	}
}

func stringLength(name string) func([]bsonraw.Value) (bsonraw.Value, error) {
	return func(v []bsonraw.Value) (bsonraw.Value, error) {
		if v[0].Type != bsoncore.TypeString {
			return bsonraw.Missing, mongoerr.New(34471, "%s requires a string argument, found: %s", name, bsonraw.TypeName(v[0].Type))
		}
		s := bsonraw.Text(v[0])
		if name == "$strLenBytes" {
			return bsonraw.Int32Value(int32(len(s))), nil
		}
		return bsonraw.Int32Value(int32(utf8.RuneCount(s))), nil
	}
}

func size(v []bsonraw.Value) (bsonraw.Value, error) {
	if v[0].Type != bsoncore.TypeArray {
		return bsonraw.Missing, mongoerr.New(17124, "The argument to $size must be an array, but was of type: %s", bsonraw.TypeName(v[0].Type))
	}
	return bsonraw.Int32Value(int32(bsonraw.Len(v[0].Data))), nil
}

func arrayElemAt(v []bsonraw.Value) (bsonraw.Value, error) {
	switch {
	case bsonraw.IsNullish(v[0]) || bsonraw.IsNullish(v[1]):
		return bsonraw.Null, nil
	case v[0].Type != bsoncore.TypeArray:
		return bsonraw.Missing, mongoerr.New(28689, "$arrayElemAt's first argument must be an array, but is %s", bsonraw.TypeName(v[0].Type))
	}
	i, ok := bsonraw.Int64(v[1])
	if !ok {
		return bsonraw.Missing, mongoerr.New(28690, "$arrayElemAt's second argument must be a numeric value, but is %s", bsonraw.TypeName(v[1].Type))
	}
	return at(v[0], i), nil
}

func at(arr bsonraw.Value, i int64) bsonraw.Value {
	elements := bsonraw.Elements(arr.Data)
	if i < 0 {
		i += int64(len(elements))
	}
	if i < 0 || i >= int64(len(elements)) {
		return bsonraw.Missing
	}
	return elements[i]
}

func edge(name string) func([]bsonraw.Value) (bsonraw.Value, error) {
	i := int64(0)
	if name == "$last" {
		i = -1
	}
	return func(v []bsonraw.Value) (bsonraw.Value, error) {
		switch {
		case bsonraw.IsNullish(v[0]):
			return bsonraw.Null, nil
		case v[0].Type != bsoncore.TypeArray:
			return bsonraw.Missing, mongoerr.New(28689, "%s's argument must be an array, but is %s", name, bsonraw.TypeName(v[0].Type))
		}
		return at(v[0], i), nil
	}
}

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

func concatArrays(values []bsonraw.Value) (bsonraw.Value, error) {
	all := []bsonraw.Value{}
	for _, v := range values {
		switch {
		case bsonraw.IsNullish(v):
			return bsonraw.Null, nil
		case v.Type != bsoncore.TypeArray:
			return bsonraw.Missing, mongoerr.New(28664, "$concatArrays only supports arrays, not %s", bsonraw.TypeName(v.Type))
		}
		all = append(all, bsonraw.Elements(v.Data)...)
	}
	return bsonraw.Array(all), nil
}

func mergeObjects(values []bsonraw.Value) (bsonraw.Value, error) {
	if len(values) == 1 && values[0].Type == bsoncore.TypeArray {
		values = bsonraw.Elements(values[0].Data)
	}
	var order []string
	merged := map[string]bsonraw.Value{}
	for _, v := range values {
		switch {
		case bsonraw.IsNullish(v):
			continue
		case v.Type != bsoncore.TypeEmbeddedDocument:
			return bsonraw.Missing, mongoerr.New(40400, "$mergeObjects requires object inputs, but input %s is of type %s", bsonraw.Format(v), bsonraw.TypeName(v.Type))
		}
		for it := bsonraw.NewIter(v.Data); it.Next(); {
			key := string(it.Key())
			if _, ok := merged[key]; !ok {
				order = append(order, key)
			}
			merged[key] = it.Value()
		}
	}
	b := bsonraw.NewBuilder(64)
	for _, key := range order {
		b.Value(key, merged[key])
	}
	return bsonraw.DocumentValue(b.Bytes()), nil
}

// spread returns the operands of $max, $min, $sum and $avg. A single array is replaced by
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

func total(name string) func([]bsonraw.Value) (bsonraw.Value, error) {
	return func(values []bsonraw.Value) (bsonraw.Value, error) {
		sum := bsonraw.Int32Value(0)
		n := 0
		for _, v := range spread(values) {
			if !bsonraw.IsNumber(v) {
				continue
			}
			var err error
			if sum, err = fold(Add, name, sum, []bsonraw.Value{v}); err != nil {
				return sum, err
			}
			n++
		}
		switch {
		case name == "$sum":
			return sum, nil
		case n == 0:
			return bsonraw.Null, nil
		}
		return bsonraw.DoubleValue(bsonraw.Float64(sum) / float64(n)), nil
	}
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
