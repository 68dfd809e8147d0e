package fold

import (
	"bytes"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Document is a read model while events are folded into it. It consists of the loaded
// document and the top-level fields that were touched since. Untouched fields cost nothing.
// Elements that were pushed to an array are kept separately.
type Document struct {
	// Loaded is the stored document; nil if there is none.
	Loaded bson.Raw
	// Base is the document from which untouched fields are read: loaded, or nil after a
	// delete.
	Base    bson.Raw
	Exists  bool
	Touched []Touched
	// scanned are the [ScannedBytes] of the fields of base, without those of the engine; -1 if
	// they are not known yet.
	scanned int
	// Created is set if the fold has created the document, even if it deleted it later.
	Created bool
	// saved is the state that Undo restores.
	saved struct {
		base            bson.Raw
		exists, created bool
		touched         []Touched
	}
}

// Touched is a top-level field that may differ from base. If value is absent, so is the
// field.
type Touched struct {
	name  string
	Value bson.RawValue
	// scanned are the [ScannedBytes] of the field in base; 0 if base does not have it.
	scanned int
	// Pushed are elements to append to value, which is then an array. pushedSize is at least
	// their size in bytes.
	Pushed     []bson.RawValue
	PushedSize int
}

// Replace sets the value, without pushed elements.
func (t *Touched) Replace(v bson.RawValue) { t.Value, t.Pushed, t.PushedSize = v, nil, 0 }

// Whole returns the value with the pushed elements.
func (t *Touched) Whole() bson.RawValue {
	if len(t.Pushed) == 0 {
		return t.Value
	}
	return ArrayOf(t.Value, t.Pushed)
}

// NewDocument begins a fold from a stored document; nil if there is none.
func NewDocument(loaded bson.Raw) *Document {
	return &Document{Loaded: loaded, Base: loaded, Exists: loaded != nil, scanned: -1}
}

// Save marks the state that Undo restores.
func (d *Document) Save() {
	d.saved.base, d.saved.exists, d.saved.created = d.Base, d.Exists, d.Created
	d.saved.touched = append(d.saved.touched[:0], d.Touched...)
}

// Undo drops all changes since save.
func (d *Document) Undo() {
	d.Base, d.Exists, d.Created, d.scanned = d.saved.base, d.saved.exists, d.saved.created, -1
	d.Touched = append(d.Touched[:0], d.saved.touched...)
}

// Touch returns a field for writing.
func (d *Document) Touch(name string) *Touched {
	if i := d.IndexTouched(name); i >= 0 {
		return &d.Touched[i]
	}
	t := Touched{name: name}
	var ok bool
	if t.Value, ok = Lookup(d.Base, name); ok {
		t.scanned = ScannedBytes(len(name), t.Value)
	}
	d.Touched = append(d.Touched, t)
	return &d.Touched[len(d.Touched)-1]
}

// IndexTouched returns the index of a field in Touched; -1 if it is not there.
func (d *Document) IndexTouched(name string) int {
	for i := range d.Touched {
		if d.Touched[i].name == name {
			return i
		}
	}
	return -1
}

// Create creates the document if it does not exist.
func (d *Document) Create() {
	if !d.Exists {
		d.Exists, d.Created = true, true
	}
}

// Clear deletes the document.
func (d *Document) Clear() {
	d.Exists, d.Base, d.Touched, d.scanned = false, nil, d.Touched[:0], -1
}

// FieldCount counts the document's own fields.
func (d *Document) FieldCount() (n int) {
	d.each(func(string, bson.RawValue) { n++ })
	return n
}

// Scan returns the [ScannedBytes] of all fields. Which of them are in base depends on the batches
// of events, but the result does not.
func (d *Document) Scan() int {
	if d.scanned < 0 {
		d.scanned = 0
		for name, v := range ReadFields(d.Base).All() {
			if !model.EngineOwned(string(name)) {
				d.scanned += ScannedBytes(len(name), v)
			}
		}
	}
	n := d.scanned
	for i := range d.Touched {
		t := &d.Touched[i]
		n -= t.scanned
		if Present(t.Value) {
			n += ScannedBytes(len(t.name), t.Value)
		}
	}
	return n
}

// each visits the document's own fields.
func (d *Document) each(visit func(name string, v bson.RawValue)) {
	for name, value := range ReadFields(d.Base).All() {
		if !model.EngineOwned(string(name)) && d.IndexTouched(string(name)) < 0 {
			visit(string(name), value)
		}
	}
	for i := range d.Touched {
		if t := &d.Touched[i]; Present(t.Value) {
			visit(t.name, t.Whole())
		}
	}
}

// State returns the document's own fields; nil if there is no document.
func (d *Document) State() bson.Raw {
	if !d.Exists {
		return nil
	}
	start, dst := bsoncore.AppendDocumentStart(nil)
	d.each(func(name string, v bson.RawValue) { dst = AppendField(dst, name, v) })
	return FinishDocument(dst, start)
}

// Sorted returns the document's own fields in the order of their names. Otherwise the order
// would depend on the batches of events.
func (d *Document) Sorted() bson.Raw {
	if !d.Exists {
		return nil
	}
	start, dst := bsoncore.AppendDocumentStart(nil)
	for _, f := range d.ByName() {
		dst = AppendField(dst, f.Name, f.Value)
	}
	return FinishDocument(dst, start)
}

// ownField is a field of a document.
type ownField struct {
	Name  string
	Value bson.RawValue
}

// ByName returns the document's own fields, sorted by name.
func (d *Document) ByName() []ownField {
	var fields []ownField
	d.each(func(name string, v bson.RawValue) { fields = append(fields, ownField{name, v}) })
	slices.SortFunc(fields, func(a, b ownField) int { return strings.Compare(a.Name, b.Name) })
	return fields
}

// Replace replaces the document by the result of a function. nil deletes it.
func (d *Document) Replace(next bson.Raw) {
	d.Clear()
	if next == nil {
		return
	}
	d.Create()
	for name, value := range ReadFields(next).All() {
		if !model.EngineOwned(string(name)) {
			d.Touched = append(d.Touched, Touched{name: string(name), Value: value})
		}
	}
}

// appended returns the elements of next after those of old, if next begins with exactly
// those of old and both are arrays.
func appended(old, next bson.RawValue) ([]bson.RawValue, bool) {
	if old.Type != bson.TypeArray || next.Type != bson.TypeArray || len(next.Value) <= len(old.Value) {
		return nil, false
	}
	kept := old.Value[4 : len(old.Value)-1]
	if !bytes.HasPrefix(next.Value[4:], kept) {
		return nil, false
	}
	var more []bson.RawValue
	for _, v := range (FieldReader{rest: next.Value[4+len(kept) : len(next.Value)-1]}).All() {
		more = append(more, v)
	}
	return more, true
}

// Detach copies the touched fields, so that they do not keep the memory of their events.
func (d *Document) Detach() {
	for i := range d.Touched {
		t := &d.Touched[i]
		value := t.Whole()
		value.Value = bytes.Clone(value.Value)
		t.Replace(value)
	}
	clear(d.saved.touched[:cap(d.saved.touched)])
}
