package fold

import (
	"fmt"
	"maps"
	"slices"
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
	lookup := func(name string) (bson.RawValue, bool) { return Lookup(d.Loaded, name) }
	// All fields of a replaced document are touched, and each Lookup reads from the beginning.
	var stored map[string]bson.RawValue
	if d.Base == nil {
		stored = fieldsByName(d.Loaded)
		lookup = func(name string) (v bson.RawValue, ok bool) { v, ok = stored[name]; return v, ok }
	}
	for i := range d.Touched {
		t := &d.Touched[i]
		old, had := lookup(t.name)
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
	// If the document was replaced, or deleted and created again, remove the old fields that were
	// not set since.
	for i := range d.Touched {
		delete(stored, d.Touched[i].name)
	}
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		if !model.EngineOwned(name) && Updatable(name) == nil {
			unset = appendUnset(unset, name)
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

// fieldsByName returns the fields of a document. Of two with the same name, it has the first, as
// [Lookup].
func fieldsByName(document bson.Raw) map[string]bson.RawValue {
	fields := make(map[string]bson.RawValue)
	for name, value := range ReadFields(document).All() {
		if _, twice := fields[string(name)]; !twice {
			fields[string(name)] = value
		}
	}
	return fields
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
