package fold

import (
	"bytes"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// maxKeys bounds the keys of a field that are written one by one.
const maxKeys = 8

// keyChanges are the changes of one field between two documents, key by key.
type keyChanges struct {
	name       string
	old, next  bson.RawValue
	set, unset []byte
	count      int
}

// changedKeys appends to set and unset the changes that turn the document old into next,
// key by key. So a long map is not written again if only one key changes. ok is false if
// the whole field must be written, for one of these reasons:
//
//   - The changes are larger than half of the field.
//   - An update cannot express the name of a changed key: it is empty, has a dot, starts
//     with $, or occurs twice in the document.
//   - The remaining keys have changed their order, or more than one key is new: the server
//     decides the order of new keys.
func changedKeys(set, unset []byte, name string, old, next bson.RawValue) (_, _ []byte, ok bool) {
	if old.Type != bson.TypeEmbeddedDocument || next.Type != bson.TypeEmbeddedDocument {
		return set, unset, false
	}
	c := keyChanges{name: name, old: old, next: next, set: set, unset: unset}
	if !c.collect() || 2*(len(c.set)+len(c.unset)-len(set)-len(unset)) > len(next.Value) {
		return set, unset, false
	}
	return c.set, c.unset, true
}

// collect compares both documents in one pass. It returns false if the whole field must be
// written.
func (c *keyChanges) collect() bool {
	after := ReadFields(c.next.Value)
	key, value, more := after.Next()
	for oldKey, oldValue := range ReadFields(c.old.Value).All() {
		if !more || !bytes.Equal(key, oldKey) {
			if _, moved := Lookup(c.next.Value, string(oldKey)); moved || !c.change(oldKey, bson.RawValue{}) {
				return false
			}
			continue
		}
		if !SameBytes(oldValue, value) && !c.change(key, value) {
			return false
		}
		key, value, more = after.Next()
	}
	if !more {
		return true
	}
	if _, moved := Lookup(c.old.Value, string(key)); moved || !c.change(key, value) {
		return false
	}
	_, _, more = after.Next()
	return !more
}

// change adds the new value of a key; an absent value removes the key. It returns false if
// the whole field must be written.
func (c *keyChanges) change(key []byte, value bson.RawValue) bool {
	if c.count++; c.count > maxKeys || Updatable(string(key)) != nil || repeated(c.old.Value, key) || repeated(c.next.Value, key) {
		return false
	}
	path := c.name + "." + string(key)
	if Present(value) {
		c.set = AppendField(c.set, path, value)
	} else {
		c.unset = appendUnset(c.unset, path)
	}
	return true
}

// repeated reports whether a key occurs more than once in a document.
func repeated(document, key []byte) bool {
	count := 0
	for name := range ReadFields(document).All() {
		if bytes.Equal(name, key) {
			count++
		}
	}
	return count > 1
}
