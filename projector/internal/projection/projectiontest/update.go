package projectiontest

import (
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Content returns the projection's own fields by name, with their types; nil for no
// document.
func Content(raw bson.Raw) map[string]bson.RawValue {
	if raw == nil {
		return nil
	}
	content := make(map[string]bson.RawValue)
	elements, err := raw.Elements()
	if err != nil {
		panic(err)
	}
	for _, e := range elements {
		if name := e.Key(); !model.EngineOwned(name) {
			content[name] = bson.RawValue{Type: e.Value().Type, Value: slices.Clone(e.Value().Value)}
		}
	}
	return content
}

// Sorted makes a document with its fields in the order of their names.
func Sorted(content map[string]bson.RawValue) bson.Raw {
	d := bson.D{}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		d = append(d, bson.E{Key: name, Value: content[name]})
	}
	return testkit.Raw(d)
}

// changedKey applies $set or $unset to a key of a field that is a document.
func changedKey(t *rapid.T, field bson.RawValue, operator, key string, value bson.RawValue) bson.RawValue {
	var next bson.D
	if err := field.Unmarshal(&next); err != nil {
		t.Fatalf("%s is no document", field)
	}
	at := slices.IndexFunc(next, func(e bson.E) bool { return e.Key == key })
	switch {
	case operator == "$set" && at >= 0:
		next[at].Value = value
	case operator == "$set":
		next = append(next, bson.E{Key: key, Value: value})
	case operator == "$unset" && at >= 0:
		next = slices.Delete(next, at, at+1)
	default:
		t.Fatalf("%s of %s, which is not there", operator, key)
	}
	return testkit.Value(next)
}

// Updated applies an update like MongoDB, and fails if MongoDB would reject it.
func Updated(t *rapid.T, old map[string]bson.RawValue, update bson.Raw) map[string]bson.RawValue {
	next := make(map[string]bson.RawValue)
	maps.Copy(next, old)
	if update == nil {
		return next
	}
	seen, below := make(map[string]bool), make(map[string]bool)
	for operator, fields := range Content(update) {
		for name, value := range Content(fields.Document()) {
			parent, key, dotted := strings.Cut(name, ".")
			if seen[name] || seen[parent] || below[name] || strings.Contains(key, ".") || strings.Contains(name, "$") || dotted && key == "" {
				t.Fatalf("%s: conflict or bad name %s", update, name)
			}
			seen[name] = true
			if dotted {
				below[parent] = true
				next[parent] = changedKey(t, next[parent], operator, key, value)
				continue
			}
			switch operator {
			case "$set":
				next[name] = value
			case "$unset":
				delete(next, name)
			case "$push":
				var a, more bson.A
				if next[name].Unmarshal(&a) != nil || value.Document().Lookup("$each").Unmarshal(&more) != nil {
					t.Fatalf("%s: no array", update)
				}
				next[name] = testkit.Value(append(a, more...))
			default:
				t.Fatalf("unknown operator %s", operator)
			}
		}
	}
	return next
}
