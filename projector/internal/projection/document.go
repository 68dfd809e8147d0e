package projection

import (
	"bytes"
	"slices"
	"strings"

	"cel.dev/cel-go/common/types/ref"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// document is a read model while events are folded into it. It consists of the loaded
// document and the top-level fields that were touched since. Untouched fields cost nothing.
// Elements that were pushed to an array are kept separately.
type document struct {
	// loaded is the stored document; nil if there is none.
	loaded bson.Raw
	// base is the document from which untouched fields are read: loaded, or nil after a
	// delete.
	base    bson.Raw
	exists  bool
	touched []touched
	// meter charges the event that is folded. large are large values of the state before it.
	meter *meter
	large children
	// scanned are the [scannedBytes] of the fields of base, without those of the engine; -1 if
	// they are not known yet.
	scanned int
	// created is set if the fold has created the document, even if it deleted it later.
	created bool
	// saved is the state that undo restores.
	saved struct {
		base            bson.Raw
		exists, created bool
		touched         []touched
	}
}

// touched is a top-level field that may differ from base. If value is absent, so is the
// field.
type touched struct {
	name  string
	value bson.RawValue
	// scanned are the [scannedBytes] of the field in base; 0 if base does not have it.
	scanned int
	// pushed are elements to append to value, which is then an array. pushedSize is at least
	// their size in bytes.
	pushed     []bson.RawValue
	pushedSize int
}

// replace sets the value, without pushed elements.
func (t *touched) replace(v bson.RawValue) { t.value, t.pushed, t.pushedSize = v, nil, 0 }

// whole returns the value with the pushed elements.
func (t *touched) whole() bson.RawValue {
	if len(t.pushed) == 0 {
		return t.value
	}
	return arrayOf(t.value, t.pushed)
}

func newDocument(loaded bson.Raw) *document {
	return &document{loaded: loaded, base: loaded, exists: loaded != nil, scanned: -1}
}

// save marks the state that undo restores.
func (d *document) save() {
	d.saved.base, d.saved.exists, d.saved.created = d.base, d.exists, d.created
	d.saved.touched = append(d.saved.touched[:0], d.touched...)
}

// undo drops all changes since save.
func (d *document) undo() {
	d.base, d.exists, d.created, d.scanned = d.saved.base, d.saved.exists, d.saved.created, -1
	d.touched = append(d.touched[:0], d.saved.touched...)
}

// touch returns a field for writing.
func (d *document) touch(name string) *touched {
	if i := d.indexTouched(name); i >= 0 {
		return &d.touched[i]
	}
	t := touched{name: name}
	var ok bool
	if t.value, ok = lookup(d.base, name); ok {
		t.scanned = scannedBytes(len(name), t.value)
	}
	d.touched = append(d.touched, t)
	return &d.touched[len(d.touched)-1]
}

func (d *document) indexTouched(name string) int {
	for i := range d.touched {
		if d.touched[i].name == name {
			return i
		}
	}
	return -1
}

// create creates the document if it does not exist.
func (d *document) create() {
	if !d.exists {
		d.exists, d.created = true, true
	}
}

// clear deletes the document.
func (d *document) clear() {
	d.exists, d.base, d.touched, d.scanned = false, nil, d.touched[:0], -1
}

// find returns a field of the state as a CEL value.
func (d *document) find(name string) (ref.Val, bool) {
	if model.EngineOwned(name) {
		return nil, false
	}
	if v := d.large.find(name); v != nil {
		return v, true
	}
	// Where the field is depends on the batches of events, so the charge must not.
	d.meter.spend(fieldWork+d.passing(), 0)
	if i := d.indexTouched(name); i >= 0 {
		t := &d.touched[i]
		switch {
		case !present(t.value):
			return nil, false
		case len(t.pushed) > 0:
			a := &arrayValue{raw: t.value, more: t.pushed, meter: d.meter}
			size := len(t.value.Value)
			if size <= smallText {
				size = a.bytes()
			}
			return d.large.keep(name, size, a), true
		}
		return d.large.keep(name, len(t.value.Value), celValue(t.value, d.meter)), true
	}
	v, ok := lookup(d.base, name)
	if !ok {
		return nil, false
	}
	return d.large.keep(name, len(v.Value), celValue(v, d.meter)), true
}

// entries visits the fields of the state in the order of their names. Their order in the
// document depends on the batches of events.
func (d *document) entries(visit func(name string, v ref.Val) bool) {
	n := d.fieldCount()
	d.meter.spend(n*2*fieldWork+d.passing(), n*elementMemory)
	for _, f := range d.byName() {
		if !visit(f.name, celValue(f.value, d.meter)) {
			return
		}
	}
}

func (d *document) fieldCount() (n int) {
	d.each(func(string, bson.RawValue) { n++ })
	return n
}

func (d *document) count() int {
	n := d.fieldCount()
	d.meter.spend(n*fieldWork+d.passing(), 0)
	return n
}

// passing is the work to read past all fields, beside the [fieldWork] of each. Which of them
// are in base depends on the batches of events, so the charge must not.
func (d *document) passing() int {
	if d.scanned < 0 {
		d.scanned = 0
		for name, v := range readFields(d.base).all() {
			if !model.EngineOwned(string(name)) {
				d.scanned += scannedBytes(len(name), v)
			}
		}
	}
	n := d.scanned
	for i := range d.touched {
		t := &d.touched[i]
		n -= t.scanned
		if present(t.value) {
			n += scannedBytes(len(t.name), t.value)
		}
	}
	return n / bytesPerWork
}

// each visits the document's own fields.
func (d *document) each(visit func(name string, v bson.RawValue)) {
	for name, value := range readFields(d.base).all() {
		if !model.EngineOwned(string(name)) && d.indexTouched(string(name)) < 0 {
			visit(string(name), value)
		}
	}
	for i := range d.touched {
		if t := &d.touched[i]; present(t.value) {
			visit(t.name, t.whole())
		}
	}
}

// state returns the document's own fields; nil if there is no document.
func (d *document) state() State {
	if !d.exists {
		return nil
	}
	start, dst := bsoncore.AppendDocumentStart(nil)
	d.each(func(name string, v bson.RawValue) { dst = appendField(dst, name, v) })
	return finishDocument(dst, start)
}

// sorted returns the document's own fields in the order of their names. Otherwise the order
// would depend on the batches of events.
func (d *document) sorted() State {
	if !d.exists {
		return nil
	}
	start, dst := bsoncore.AppendDocumentStart(nil)
	for _, f := range d.byName() {
		dst = appendField(dst, f.name, f.value)
	}
	return finishDocument(dst, start)
}

// ownField is a field of a document.
type ownField struct {
	name  string
	value bson.RawValue
}

// byName returns the document's own fields, sorted by name.
func (d *document) byName() []ownField {
	var fields []ownField
	d.each(func(name string, v bson.RawValue) { fields = append(fields, ownField{name, v}) })
	slices.SortFunc(fields, func(a, b ownField) int { return strings.Compare(a.name, b.name) })
	return fields
}

// replace replaces the document by the result of a function. nil deletes it.
func (d *document) replace(next State) {
	d.clear()
	if next == nil {
		return
	}
	d.create()
	for name, value := range readFields(next).all() {
		if !model.EngineOwned(string(name)) {
			d.touched = append(d.touched, touched{name: string(name), value: value})
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
	for _, v := range (fieldReader{rest: next.Value[4+len(kept) : len(next.Value)-1]}).all() {
		more = append(more, v)
	}
	return more, true
}
