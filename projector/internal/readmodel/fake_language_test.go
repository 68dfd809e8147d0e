package readmodel

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
)

// projected returns a copy of a document with the _id and the projected top-level fields; nil
// projects all.
func projected(document, projection bson.Raw) bson.Raw {
	if projection == nil {
		return bytes.Clone(document)
	}
	fields, err := projection.Elements()
	if err != nil {
		panic(err)
	}
	b := build(64).value(fieldID, document.Lookup(fieldID))
	for _, field := range fields {
		if field.Key() != fieldID {
			b.value(field.Key(), document.Lookup(field.Key()))
		}
	}
	return b.raw()
}

// matches evaluates a filter of equalities, $in and $lte. Equality with null matches an
// absent field.
func matches(filter, document bson.Raw) bool {
	elements, err := filter.Elements()
	if err != nil {
		panic(err)
	}
	for _, e := range elements {
		values := valuesAt(document, strings.Split(e.Key(), "."))
		if len(values) == 0 && e.Value().Type == bson.TypeNull {
			continue
		}
		if !slices.ContainsFunc(values, func(v bson.RawValue) bool { return matchesValue(e.Value(), v) }) {
			return false
		}
	}
	return true
}

// valuesAt returns the values at a path, which leads through all documents of an array.
func valuesAt(document bson.Raw, path []string) []bson.RawValue {
	value, err := document.LookupErr(path[0])
	if err != nil {
		return nil
	}
	if len(path) == 1 {
		return []bson.RawValue{value}
	}
	if within, ok := value.DocumentOK(); ok {
		return valuesAt(within, path[1:])
	}
	array, ok := value.ArrayOK()
	if !ok {
		return nil
	}
	elements, err := array.Values()
	if err != nil {
		panic(err)
	}
	var values []bson.RawValue
	for _, element := range elements {
		if within, ok := element.DocumentOK(); ok {
			values = append(values, valuesAt(within, path[1:])...)
		}
	}
	return values
}

func matchesValue(want, got bson.RawValue) bool {
	if condition, ok := want.DocumentOK(); ok {
		elements, err := condition.Elements()
		if err != nil {
			panic(err)
		}
		if strings.HasPrefix(elements[0].Key(), "$") {
			operand := elements[0].Value()
			switch elements[0].Key() {
			case "$in":
				values, err := operand.Array().Values()
				if err != nil {
					panic(err)
				}
				return slices.ContainsFunc(values, func(v bson.RawValue) bool { return v.Equal(got) })
			case "$lte":
				return got.AsInt64() <= operand.AsInt64()
			}
			panic("unknown operator " + elements[0].Key())
		}
	}
	return want.Equal(got)
}

// applyUpdate applies $set, $unset, $push with $each, $max and $inc to top-level fields, each
// field at most once. It also applies $set and $unset to the fields of embedded documents.
func applyUpdate(old, change bson.Raw) bson.Raw {
	var document, operators bson.D
	if err := errors.Join(bson.Unmarshal(old, &document), bson.Unmarshal(change, &operators)); err != nil {
		panic(err)
	}
	touched := make(map[string]bool)
	for _, operator := range operators {
		for _, e := range operator.Value.(bson.D) {
			if touched[e.Key] || strings.Contains(e.Key, "$") {
				panic("conflicting or unusable path " + e.Key)
			}
			touched[e.Key] = true
			if parent, key, dotted := strings.Cut(e.Key, "."); dotted {
				at := slices.IndexFunc(document, func(field bson.E) bool { return field.Key == parent })
				document[at].Value = applyWithin(document[at].Value.(bson.D), operator.Key, key, e.Value)
				continue
			}
			at := slices.IndexFunc(document, func(field bson.E) bool { return field.Key == e.Key })
			var value any
			if at >= 0 {
				value = document[at].Value
			}
			switch operator.Key {
			case "$unset":
				if at >= 0 {
					document = slices.Delete(document, at, at+1)
				}
				continue
			case "$set":
				value = e.Value
			case "$push":
				array, ok := value.(bson.A)
				if !ok && at >= 0 {
					panic("$push to what is no array")
				}
				value = append(array, e.Value.(bson.D)[0].Value.(bson.A)...)
			case "$max":
				if at < 0 || value.(int64) < e.Value.(int64) {
					value = e.Value
				}
			case "$inc":
				n, _ := value.(int64)
				value = n + e.Value.(int64)
			default:
				panic("unknown operator " + operator.Key)
			}
			if at >= 0 {
				document[at].Value = value
			} else {
				document = append(document, bson.E{Key: e.Key, Value: value})
			}
		}
	}
	return bsontest.Raw(document)
}

// applyWithin applies $set or $unset to a field of an embedded document.
func applyWithin(document bson.D, operator, key string, value any) bson.D {
	change := bsontest.Raw(bson.D{{Key: operator, Value: bson.D{{Key: key, Value: value}}}})
	var next bson.D
	if err := bson.Unmarshal(applyUpdate(bsontest.Raw(document), change), &next); err != nil {
		panic(err)
	}
	return next
}
