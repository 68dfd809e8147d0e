package projection

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
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
func Changes(before, after State) (listed []FieldChange, more int) {
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
	c.listed = append(c.listed, FieldChange{Path: path, Before: show(before), After: show(after)})
}

func (c *changes) documents(path string, before, after []byte) {
	theirs := finder{doc: after}
	for r := readFields(before); ; {
		name, old, ok := r.next()
		if !ok {
			break
		}
		if path == "" && engineOwned(string(name)) {
			continue
		}
		next, _ := theirs.find(string(name))
		c.values(joinPath(path, string(name)), old, next)
	}
	mine := finder{doc: before}
	for r := readFields(after); ; {
		name, next, ok := r.next()
		if !ok {
			return
		}
		if _, had := mine.find(string(name)); !had && (path != "" || !engineOwned(string(name))) {
			c.values(joinPath(path, string(name)), bson.RawValue{}, next)
		}
	}
}

func (c *changes) values(path string, before, after bson.RawValue) {
	switch {
	case sameBytes(before, after):
	case before.Type == bson.TypeEmbeddedDocument && after.Type == bson.TypeEmbeddedDocument:
		c.documents(path, before.Value, after.Value)
	case before.Type == bson.TypeArray && after.Type == bson.TypeArray:
		c.arrays(path, before, after)
	default:
		c.add(path, before, after)
	}
}

func (c *changes) arrays(path string, before, after bson.RawValue) {
	more, grown := appended(before, after)
	if !grown {
		c.add(path, before, after)
		return
	}
	at := 0
	for r := readFields(before.Value); ; at++ {
		if _, _, ok := r.next(); !ok {
			break
		}
	}
	for i, v := range more {
		c.add(fmt.Sprintf("%s[%d]", path, at+i), bson.RawValue{}, v)
	}
}

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
