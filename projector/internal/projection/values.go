package projection

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strconv"
	"time"
	"unsafe"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// celValue converts a BSON value to a CEL value. Texts, documents and arrays are read in
// place, and only as far as an expression uses them, so the BSON value must not change. Both
// widths of integers become int, because CEL has only 64-bit integers.
func celValue(v bson.RawValue, m *meter) ref.Val {
	switch v.Type {
	case bson.TypeString:
		if s, ok := textOf(v); ok {
			return types.String(s)
		}
	case bson.TypeInt32:
		if i, ok := v.Int32OK(); ok {
			return types.Int(i)
		}
	case bson.TypeInt64:
		if i, ok := v.Int64OK(); ok {
			return types.Int(i)
		}
	case bson.TypeDouble:
		if f, ok := v.DoubleOK(); ok {
			return types.Double(f)
		}
	case bson.TypeBoolean:
		if b, ok := v.BooleanOK(); ok {
			return types.Bool(b)
		}
	case bson.TypeDateTime:
		if ms, ok := v.DateTimeOK(); ok {
			return types.Timestamp{Time: time.UnixMilli(ms).UTC()}
		}
	case bson.TypeNull:
		return types.NullValue
	case bson.TypeEmbeddedDocument:
		return newDocumentValue(v.Value, m)
	case bson.TypeArray:
		return &arrayValue{raw: v, meter: m}
	case bson.TypeBinary:
		if subtype, data, ok := v.BinaryOK(); ok && subtype == bson.TypeBinaryGeneric {
			return types.Bytes(data)
		}
	}
	return opaque{v}
}

// textOf returns the text of a BSON string without copying it.
func textOf(v bson.RawValue) (string, bool) {
	const length, end = 4, 1 // the length before the text, and the zero byte after it
	if len(v.Value) < length+end || int(binary.LittleEndian.Uint32(v.Value)) != len(v.Value)-length {
		return "", false
	}
	return alias(v.Value[length : len(v.Value)-end]), true
}

// alias returns bytes that do not change as a string.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) } //nolint:gosec // the bytes of an event do not change

// noNative is the error of conversions to Go types. Penstock needs none of them.
func noNative(v ref.Val, t reflect.Type) error {
	return fmt.Errorf("convert %s to %s: unsupported", v.Type(), t)
}

// namedValues has the entries of a [mapValue].
type namedValues interface {
	find(name string) (ref.Val, bool)
	// entries visits the entries in an order that depends only on the content, until visit
	// returns false.
	entries(visit func(name string, v ref.Val) bool)
	count() int
}

// mapValue is CEL's map with string keys. A type that embeds it provides the entries.
type mapValue struct {
	f namedValues
}

var _ traits.Mapper = mapValue{}

// FindStringKey is the shortcut that CEL takes for a constant key.
func (m mapValue) FindStringKey(name string) (any, bool) {
	v, ok := m.f.find(name)
	return v, ok
}

func (m mapValue) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	return m.f.find(string(name))
}

func (m mapValue) Get(key ref.Val) ref.Val {
	v, ok := m.Find(key)
	if !ok {
		return types.NewErr("no such key: %v", key)
	}
	return v
}

func (m mapValue) Contains(key ref.Val) ref.Val {
	_, ok := m.Find(key)
	return types.Bool(ok)
}

func (m mapValue) Size() ref.Val { return types.Int(m.f.count()) }

func (m mapValue) IsZeroValue() bool { return m.f.count() == 0 }

func (m mapValue) Iterator() traits.Iterator {
	var keys []ref.Val
	m.f.entries(func(name string, _ ref.Val) bool {
		keys = append(keys, types.String(name))
		return true
	})
	return types.NewRefValList(types.DefaultTypeAdapter, keys).Iterator()
}

// Fold is called by the comprehensions of CEL.
func (m mapValue) Fold(f traits.Folder) {
	m.f.entries(func(name string, v ref.Val) bool { return f.FoldEntry(types.String(name), v) })
}

func (m mapValue) Equal(other ref.Val) ref.Val {
	o, ok := other.(traits.Mapper)
	return types.Bool(ok && sameEntries(m, o, nil))
}

func (m mapValue) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.MapType:
		return m
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("type conversion error from '%s' to '%s'", types.MapType, t)
}

func (m mapValue) ConvertToNative(t reflect.Type) (any, error) { return nil, noNative(m, t) }

func (m mapValue) Type() ref.Type { return types.MapType }

func (m mapValue) Value() any { return m.f }

// documentValue is an embedded document, read in place.
type documentValue struct {
	mapValue
	raw   []byte
	meter *meter
	large children
}

func newDocumentValue(raw []byte, m *meter) *documentValue {
	d := &documentValue{raw: raw, meter: m}
	d.f = d
	return d
}

func (d *documentValue) find(name string) (ref.Val, bool) {
	if v := d.large.find(name); v != nil {
		return v, true
	}
	v, ok := d.meter.lookup(d.raw, name)
	if !ok {
		return nil, false
	}
	return d.large.keep(name, len(v.Value), celValue(v, d.meter)), true
}

func (d *documentValue) count() int { return d.meter.count(d.raw) }

func (d *documentValue) entries(visit func(name string, v ref.Val) bool) {
	for name, v := range d.meter.fields(d.raw).all() {
		if !visit(alias(name), celValue(v, d.meter)) {
			return
		}
	}
}

// Equal compares documents. It takes one pass if their fields have the same order.
func (d *documentValue) Equal(other ref.Val) ref.Val {
	o, ok := other.(traits.Mapper)
	return types.Bool(ok && sameEntries(d, o, d.meter))
}

// children are large documents and arrays that were looked up during an event, so that a
// loop does not count and split them again and again.
type children []child

type child struct {
	name  string
	value ref.Val
}

// maxChildren bounds the children of a document that are kept.
const maxChildren = 8

func (c children) find(name string) ref.Val {
	for i := range c {
		if c[i].name == name {
			return c[i].value
		}
	}
	return nil
}

// keep keeps a value if it is large, and returns it.
func (c *children) keep(name string, size int, v ref.Val) ref.Val {
	if size > smallText && len(*c) < maxChildren {
		switch v.(type) {
		case *arrayValue, *documentValue:
			*c = append(*c, child{name, v})
		}
	}
	return v
}

// arrayValue is an array, read in place. It serves one evaluation at a time.
type arrayValue struct {
	raw bson.RawValue
	// more are pushed elements, which follow those of raw.
	more  []bson.RawValue
	meter *meter
	// length is the number of elements plus 1; 0 if it is not known yet.
	length int
	// reads counts the reads of single elements. After some, the array is split into list.
	reads int
	list  traits.Lister
}

var (
	_ traits.Lister   = (*arrayValue)(nil)
	_ traits.Foldable = (*arrayValue)(nil)
)

const (
	// maxReads is how many elements of an array are looked up in place.
	maxReads = 4
	// elementMemory is how much memory an element of a list takes, beside its text.
	elementMemory = 64
)

// elements splits the array.
func (a *arrayValue) elements() traits.Lister {
	if a.list == nil {
		n := a.count()
		a.meter.spend(n*fieldWork, n*elementMemory)
		values := make([]ref.Val, 0, n)
		a.each(func(_ int, v ref.Val) bool {
			values = append(values, v)
			return true
		})
		a.list = types.NewRefValList(types.DefaultTypeAdapter, values)
	}
	return a.list
}

func (a *arrayValue) count() int {
	if a.length == 0 {
		for _, v := range a.more {
			a.meter.spend(passing(nil, v), 0)
		}
		a.length = a.meter.count(a.raw.Value) + len(a.more) + 1
	}
	return a.length - 1
}

// bytes is the size of the array with its pushed elements.
func (a *arrayValue) bytes() int {
	size := len(a.raw.Value)
	if len(a.more) > 0 {
		n := fold.CountFields(a.raw.Value)
		for i, v := range a.more {
			size += 2 + len(strconv.Itoa(n+i)) + len(v.Value)
		}
	}
	return size
}

// each visits the elements until visit returns false.
func (a *arrayValue) each(visit func(i int, v ref.Val) bool) {
	elements := elementIterator{array: a, rest: a.meter.fields(a.raw.Value)}
	for i := 0; ; i++ {
		v, ok := elements.read()
		if !ok || !visit(i, celValue(v, a.meter)) {
			return
		}
	}
}

// Fold is called by the comprehensions of CEL.
func (a *arrayValue) Fold(f traits.Folder) {
	a.each(func(i int, v ref.Val) bool { return f.FoldEntry(types.Int(i), v) })
}

func (a *arrayValue) Iterator() traits.Iterator {
	return &elementIterator{array: a, rest: a.meter.fields(a.raw.Value), left: a.count()}
}

func (a *arrayValue) Get(index ref.Val) ref.Val {
	i, ok := index.(types.Int)
	if a.reads++; !ok || i < 0 || int(i) >= a.count() || a.reads > maxReads {
		return a.elements().Get(index)
	}
	elements := elementIterator{array: a, rest: a.meter.fields(a.raw.Value)}
	for range i {
		elements.read()
	}
	v, _ := elements.read()
	return celValue(v, a.meter)
}

// contains reports whether an element equals a value. It makes values only of elements that
// can be equal.
func (a *arrayValue) contains(value ref.Val) bool {
	text, isText := value.(types.String)
	_, isDocument := value.(*documentValue)
	elements := elementIterator{array: a, rest: a.meter.fields(a.raw.Value)}
	for {
		v, ok := elements.read()
		if !ok {
			return false
		}
		if isText {
			element, ok := textOf(v)
			if !ok || v.Type != bson.TypeString || len(element) != len(text) {
				continue
			}
			a.meter.compared(len(element), len(text))
			if element == string(text) {
				return true
			}
			continue
		}
		if isDocument && v.Type != bson.TypeEmbeddedDocument {
			continue
		}
		if sameValue(value, celValue(v, a.meter), a.meter) {
			return true
		}
	}
}

func (a *arrayValue) Add(other ref.Val) ref.Val      { return a.elements().Add(other) }
func (a *arrayValue) Contains(value ref.Val) ref.Val { return types.Bool(a.contains(value)) }
func (a *arrayValue) Size() ref.Val                  { return types.Int(a.count()) }
func (a *arrayValue) IsZeroValue() bool              { return a.count() == 0 }
func (a *arrayValue) Type() ref.Type                 { return types.ListType }
func (a *arrayValue) Value() any                     { return a.elements().Value() }

func (a *arrayValue) Equal(other ref.Val) ref.Val {
	o, ok := other.(traits.Lister)
	return types.Bool(ok && sameElements(a, o, a.meter))
}

func (a *arrayValue) ConvertToType(t ref.Type) ref.Val { return a.elements().ConvertToType(t) }

func (a *arrayValue) ConvertToNative(t reflect.Type) (any, error) { return nil, noNative(a, t) }

// elementIterator reads the elements of an array one by one.
type elementIterator struct {
	// Val is nil: CEL does not use iterators as values.
	ref.Val
	array *arrayValue
	rest  meteredFields
	// pushed is how many pushed elements were read, left how many elements of all follow.
	pushed, left int
}

func (it *elementIterator) read() (bson.RawValue, bool) {
	if _, v, ok := it.rest.next(); ok {
		return v, true
	}
	if it.pushed == len(it.array.more) {
		it.array.meter.spend(fieldWork, 0)
		return bson.RawValue{}, false
	}
	v := it.array.more[it.pushed]
	it.pushed++
	it.array.meter.spend(passing(nil, v), 0)
	return v, true
}

func (it *elementIterator) HasNext() ref.Val { return types.Bool(it.left > 0) }

func (it *elementIterator) Next() ref.Val {
	it.left--
	v, _ := it.read()
	return celValue(v, it.array.meter)
}
