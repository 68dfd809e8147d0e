package fold

import (
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Update returns the smallest update that turns the loaded document into the present one.
// Both must exist. It has $set and $unset for the top-level fields that differ, or for
// their changed keys ([changedKeys]). Elements that were only appended to an array become a
// $push. So a long map or array is not written again. nil means that nothing differs.
// Fields whose names an update cannot express do not belong to a projection, and stay.
func (d *Document) Update() bson.Raw {
	var set, unset, push []byte
	for i := range d.Touched {
		t := &d.Touched[i]
		old, had := Lookup(d.Loaded, t.name)
		if !had && !Present(t.Value) {
			continue
		}
		if had && len(t.Pushed) > 0 && SameBytes(old, t.Value) {
			push = appendPush(push, t.name, t.Pushed)
			continue
		}
		next := t.Whole()
		if had && SameBytes(old, next) {
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
		if Present(next) {
			set = AppendField(set, t.name, next)
		} else {
			unset = appendUnset(unset, t.name)
		}
	}
	if d.Base == nil {
		// The document was deleted and created again: remove the old fields that were not
		// set since.
		for name := range ReadFields(d.Loaded).All() {
			if model.EngineOwned(string(name)) || d.IndexTouched(string(name)) >= 0 || Updatable(string(name)) != nil {
				continue
			}
			unset = appendUnset(unset, string(name))
		}
	}
	if len(set)+len(unset)+len(push) == 0 {
		return nil
	}
	start, dst := bsoncore.AppendDocumentStart(make([]byte, 0, len(set)+len(unset)+len(push)+48))
	dst = appendOperator(dst, "$set", set)
	dst = appendOperator(dst, "$unset", unset)
	dst = appendOperator(dst, "$push", push)
	return FinishDocument(dst, start)
}

// Updatable refuses top-level names that have another meaning in an update.
func Updatable(name string) error {
	if name == "" || name[0] == '$' || strings.Contains(name, ".") {
		return fmt.Errorf("field %q is not a valid field name: it is empty, starts with $ or has a dot", name)
	}
	return nil
}

func appendOperator(dst []byte, operator string, elements []byte) []byte {
	if len(elements) == 0 {
		return dst
	}
	start, dst := bsoncore.AppendDocumentElementStart(dst, operator)
	return FinishDocument(append(dst, elements...), start)
}

func appendUnset(dst []byte, name string) []byte {
	return bsoncore.AppendStringElement(dst, name, "")
}

func appendPush(dst []byte, name string, elements []bson.RawValue) []byte {
	start, dst := bsoncore.AppendDocumentElementStart(dst, name)
	dst = AppendField(dst, "$each", ArrayOf(bson.RawValue{}, elements))
	return FinishDocument(dst, start)
}
