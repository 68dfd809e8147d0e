package projection

import (
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// update returns the smallest update that turns the loaded document into the present one.
// Both must exist. It has $set and $unset for the top-level fields that differ, or for
// their changed keys ([changedKeys]). Elements that were only appended to an array become a
// $push. So a long map or array is not written again. nil means that nothing differs.
// Fields whose names an update cannot express do not belong to a projection, and stay.
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
		// The document was deleted and created again: remove the old fields that were not
		// set since.
		for name := range readFields(d.loaded).all() {
			if model.EngineOwned(string(name)) || d.indexTouched(string(name)) >= 0 || updatable(string(name)) != nil {
				continue
			}
			unset = appendUnset(unset, string(name))
		}
	}
	return updateDocument(set, unset, push)
}

// updatable refuses top-level names that have another meaning in an update.
func updatable(name string) error {
	if name == "" || name[0] == '$' || strings.Contains(name, ".") {
		return fmt.Errorf("field %q is not a valid field name: it is empty, starts with $ or has a dot", name)
	}
	return nil
}

// updateDocument makes an update from the fields of each operator; nil if there are none.
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

// finder looks up fields in a document. If they are looked up in the document's order, one
// pass over the document is enough.
type finder struct {
	doc   []byte
	rest  fieldReader
	meter *meter
}

func (f *finder) find(name string) (bson.RawValue, bool) {
	key, value, ok := f.rest.next()
	work := passing(key, value)
	if !ok || string(key) != name {
		f.rest = readFields(f.doc)
		for {
			key, value, ok = f.rest.next()
			work += passing(key, value)
			if !ok || string(key) == name {
				break
			}
		}
	}
	f.meter.spend(work, 0)
	return value, ok
}
