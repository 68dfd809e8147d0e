package project

import (
	"fmt"
	"reflect"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// celValue converts a BSON value to a CEL value. Documents and arrays are read in place,
// and only as far as an expression uses them. Both widths of integers become int, because
// CEL has only 64-bit integers.
func celValue(v bson.RawValue) ref.Val {
	switch v.Type {
	case bson.TypeString:
		if s, ok := v.StringValueOK(); ok {
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
		return newDocumentValue(v.Value)
	case bson.TypeArray:
		return &arrayValue{raw: v}
	case bson.TypeBinary:
		if subtype, data, ok := v.BinaryOK(); ok && subtype == bson.TypeBinaryGeneric {
			return types.Bytes(data)
		}
	}
	return opaque{v}
}

// noNative is the error of conversions to Go types. Penstock needs none of them.
func noNative(v ref.Val, t reflect.Type) error {
	return fmt.Errorf("convert %s to %s: unsupported", v.Type(), t)
}

// namedValues looks up the entries of a [mapValue].
type namedValues interface {
	find(name string) (ref.Val, bool)
	// names lists the keys in an order that depends only on the content.
	names() []string
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

func (m mapValue) Size() ref.Val { return types.Int(len(m.f.names())) }

func (m mapValue) IsZeroValue() bool { return len(m.f.names()) == 0 }

func (m mapValue) Iterator() traits.Iterator {
	names := m.f.names()
	keys := make([]ref.Val, len(names))
	for i, name := range names {
		keys[i] = types.String(name)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, keys).Iterator()
}

func (m mapValue) Equal(other ref.Val) ref.Val {
	o, ok := other.(traits.Mapper)
	return types.Bool(ok && sameEntries(m, o))
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
	raw []byte
}

func newDocumentValue(raw []byte) *documentValue {
	d := &documentValue{raw: raw}
	d.f = d
	return d
}

func (d *documentValue) find(name string) (ref.Val, bool) {
	v, ok := lookup(d.raw, name)
	if !ok {
		return nil, false
	}
	return celValue(v), true
}

func (d *documentValue) names() []string {
	var names []string
	r := readFields(d.raw)
	for {
		name, _, ok := r.next()
		if !ok {
			return names
		}
		names = append(names, string(name))
	}
}

// arrayValue is an array. It is split into its elements when an expression first uses them.
// It serves one evaluation at a time.
type arrayValue struct {
	raw bson.RawValue
	// more are pushed elements, which follow those of raw.
	more []bson.RawValue
	list traits.Lister
}

var _ traits.Lister = (*arrayValue)(nil)

func (a *arrayValue) elements() traits.Lister {
	if a.list != nil {
		return a.list
	}
	values := make([]ref.Val, 0, countFields(a.raw.Value)+len(a.more))
	r := readFields(a.raw.Value)
	for {
		_, v, ok := r.next()
		if !ok {
			break
		}
		values = append(values, celValue(v))
	}
	for _, v := range a.more {
		values = append(values, celValue(v))
	}
	a.list = types.NewRefValList(types.DefaultTypeAdapter, values)
	return a.list
}

func (a *arrayValue) Add(other ref.Val) ref.Val      { return a.elements().Add(other) }
func (a *arrayValue) Contains(value ref.Val) ref.Val { return contains(a.elements(), value) }
func (a *arrayValue) Get(index ref.Val) ref.Val      { return a.elements().Get(index) }
func (a *arrayValue) Iterator() traits.Iterator      { return a.elements().Iterator() }
func (a *arrayValue) Size() ref.Val                  { return a.elements().Size() }
func (a *arrayValue) IsZeroValue() bool              { return a.Size() == types.IntZero }
func (a *arrayValue) Type() ref.Type                 { return types.ListType }
func (a *arrayValue) Value() any                     { return a.elements().Value() }

func (a *arrayValue) Equal(other ref.Val) ref.Val {
	o, ok := other.(traits.Lister)
	return types.Bool(ok && sameElements(a.elements(), o))
}

func (a *arrayValue) ConvertToType(t ref.Type) ref.Val { return a.elements().ConvertToType(t) }

func (a *arrayValue) ConvertToNative(t reflect.Type) (any, error) {
	return nil, noNative(a, t)
}
