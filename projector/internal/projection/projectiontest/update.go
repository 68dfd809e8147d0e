package projectiontest

import (
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
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
		if name := e.Key(); name != "_id" && name != "lastEventId" && name != "lastUpdatedAt" {
			content[name] = bson.RawValue{Type: e.Value().Type, Value: slices.Clone(e.Value().Value)}
		}
	}
	return content
}

// changedKey applies $set or $unset to a key of a field that is a document.
func changedKey(t *rapid.T, field bson.RawValue, operator, key string, value bson.RawValue) bson.RawValue {
	document, ok := field.DocumentOK()
	if !ok {
		t.Fatalf("%s is no document", field)
	}
	elements, err := document.Elements()
	if err != nil {
		t.Fatal(err)
	}
	next, found := bson.D{}, false
	for _, e := range elements {
		switch {
		case e.Key() != key:
			next = append(next, bson.E{Key: e.Key(), Value: e.Value()})
			continue
		case operator == "$set":
			next = append(next, bson.E{Key: key, Value: value})
		}
		found = true
	}
	switch {
	case operator == "$unset" && found, operator == "$set" && found:
	case operator == "$set":
		next = append(next, bson.E{Key: key, Value: value})
	default:
		t.Fatalf("%s of %s, which is not there", operator, key)
	}
	return bsontest.Value(next)
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
				next[name] = bsontest.Value(append(a, more...))
			default:
				t.Fatalf("unknown operator %s", operator)
			}
		}
	}
	return next
}
