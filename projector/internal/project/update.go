package project

import (
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// update returns the smallest update that turns the loaded document into the present one,
// both of which exist: $set and $unset of the top-level fields that differ, or of their
// keys that do ([changedKeys]), and $push of what was only appended to an array, so that
// a long map or array is not written again. nil means that nothing differs. Fields whose
// names an update cannot express are none of a projection's, and stay.
func (d *document) update() bson.Raw {
	var set, unset, push []byte
	before := finder{doc: d.loaded}
	for i := range d.touched {
		t := &d.touched[i]
		old, had := before.find(t.name)
		if !had && !present(t.value) {
			continue
		}
		if had && len(t.pushed) > 0 && sameBytes(old, t.value) {
			push = appendPush(push, t.name, t.pushed)
			continue
		}
		next := t.whole()
		if had && sameBytes(old, next) {
			continue
		}
		if more, ok := appended(old, next); ok {
			push = appendPush(push, t.name, more)
			continue
		}
		var byKey bool
		if set, unset, byKey = changedKeys(set, unset, t.name, old, next); byKey {
			continue
		}
		if present(next) {
			set = appendField(set, t.name, next)
		} else {
			unset = appendUnset(unset, t.name)
		}
	}
	if d.base == nil {
		// A delete took the fields that nothing has touched since.
		r := readFields(d.loaded)
		for {
			name, _, ok := r.next()
			if !ok {
				break
			}
			if engineOwned(string(name)) || d.indexTouched(string(name)) >= 0 || updatable(string(name)) != nil {
				continue
			}
			unset = appendUnset(unset, string(name))
		}
	}
	return updateDocument(set, unset, push)
}

// updatable refuses top-level names that would mean something else in an update.
func updatable(name string) error {
	if name == "" || name[0] == '$' || strings.Contains(name, ".") {
		return fmt.Errorf("field %q is not a valid field name: it is empty, starts with $ or has a dot", name)
	}
	return nil
}

// updateDocument makes an update of the fields for each operator; nil if there are
// none.
func updateDocument(set, unset, push []byte) bson.Raw {
	if len(set)+len(unset)+len(push) == 0 {
		return nil
	}
	start, dst := bsoncore.AppendDocumentStart(make([]byte, 0, len(set)+len(unset)+len(push)+48))
	dst = appendOperator(dst, "$set", set)
	dst = appendOperator(dst, "$unset", unset)
	dst = appendOperator(dst, "$push", push)
	return finishDocument(dst, start)
}

func appendOperator(dst []byte, operator string, elements []byte) []byte {
	if len(elements) == 0 {
		return dst
	}
	start, dst := bsoncore.AppendDocumentElementStart(dst, operator)
	return finishDocument(append(dst, elements...), start)
}

func appendUnset(dst []byte, name string) []byte {
	return bsoncore.AppendStringElement(dst, name, "")
}

func appendPush(dst []byte, name string, elements []bson.RawValue) []byte {
	start, dst := bsoncore.AppendDocumentElementStart(dst, name)
	dst = appendField(dst, "$each", arrayOf(bson.RawValue{}, elements))
	return finishDocument(dst, start)
}

// finder looks up fields in a document; asked for them in the order in which they
// stand there, it passes over the document once.
type finder struct {
	doc  []byte
	rest fieldReader
}

func (f *finder) find(name string) (bson.RawValue, bool) {
	if key, value, ok := f.rest.next(); ok && string(key) == name {
		return value, true
	}
	f.rest = readFields(f.doc)
	for {
		key, value, ok := f.rest.next()
		if !ok || string(key) == name {
			return value, ok
		}
	}
}
