package authoring

import (
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// FieldChange is a field whose value differs between two documents.
type FieldChange struct {
	// Path is the path of the field, with dots, and with the indexes of arrays in brackets.
	Path string `json:"path"`
	// Before and After are Extended JSON; empty if the field is absent. Long values are
	// truncated.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// maxChanges bounds the changes that [Changes] lists.
const maxChanges = 50

// Changes lists the fields that differ between two documents, and how many more differ than
// it lists. It ignores the order of fields and the engine's fields. nil means no document.
// An array counts as one change unless all elements keep their places.
func Changes(before, after projection.State) (listed []FieldChange, more int) {
	c := changes{}
	c.documents("", before, after)
	return c.listed, c.more
}

type changes struct {
	listed []FieldChange
	more   int
}

func (c *changes) add(path string, before, after bson.RawValue) {
	if len(c.listed) == maxChanges {
		c.more++
		return
	}
	c.listed = append(c.listed, FieldChange{Path: path, Before: projection.Show(before), After: projection.Show(after)})
}

func (c *changes) documents(path string, before, after bson.Raw) {
	prefix := path + "."
	if path == "" {
		prefix = ""
	}
	old, was := fieldsOf(path, before)
	next, is := fieldsOf(path, after)
	for _, name := range old {
		c.values(prefix+name, was[name], is[name])
	}
	for _, name := range next {
		if _, had := was[name]; !had {
			c.values(prefix+name, bson.RawValue{}, is[name])
		}
	}
}

// fieldsOf returns the names of the fields of the document at a path, in their order and
// without the engine's, and their values.
func fieldsOf(path string, doc bson.Raw) ([]string, map[string]bson.RawValue) {
	elements, _ := doc.Elements()
	names, values := make([]string, 0, len(elements)), make(map[string]bson.RawValue, len(elements))
	for _, e := range elements {
		name := e.Key()
		if _, twice := values[name]; twice || path == "" && model.EngineOwned(name) {
			continue
		}
		names = append(names, name)
		values[name] = e.Value()
	}
	return names, values
}

func (c *changes) values(path string, before, after bson.RawValue) {
	switch {
	case before.Equal(after):
	case before.Type == bson.TypeEmbeddedDocument && after.Type == bson.TypeEmbeddedDocument:
		c.documents(path, before.Value, after.Value)
	case before.Type == bson.TypeArray && after.Type == bson.TypeArray:
		c.arrays(path, before, after)
	default:
		c.add(path, before, after)
	}
}

func (c *changes) arrays(path string, before, after bson.RawValue) {
	old, _ := bson.RawArray(before.Value).Values()
	next, _ := bson.RawArray(after.Value).Values()
	if len(next) <= len(old) || !slices.EqualFunc(old, next[:len(old)], bson.RawValue.Equal) {
		c.add(path, before, after)
		return
	}
	for i := len(old); i < len(next); i++ {
		c.add(fmt.Sprintf("%s[%d]", path, i), bson.RawValue{}, next[i])
	}
}
