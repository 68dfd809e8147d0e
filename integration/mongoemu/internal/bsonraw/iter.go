package bsonraw

import (
	"bytes"
	"encoding/binary"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Value is one BSON value: its type and its bytes, without its name.
type Value = bsoncore.Value

// Iter iterates over the elements of a document or an array without allocating. The zero
// Iter has no elements.
type Iter struct {
	rest  []byte
	key   []byte
	value Value
}

// NewIter returns an iterator before the first element of doc.
func NewIter(doc []byte) Iter {
	if len(doc) < 5 {
		return Iter{}
	}
	return Iter{rest: doc[4:]}
}

// Next moves to the next element and reports whether there is one.
func (it *Iter) Next() bool {
	if len(it.rest) == 0 || it.rest[0] == 0 {
		it.rest = nil
		return false
	}
	t := it.rest[0]
	end := bytes.IndexByte(it.rest[1:], 0)
	it.key = it.rest[1 : 1+end]
	data := it.rest[2+end:]
	n := size(t, data)
	it.value = Value{Type: bsoncore.Type(t), Data: data[:n:n]}
	it.rest = data[n:]
	return true
}

// Key returns the current element's name. It shares the document's memory.
func (it *Iter) Key() []byte { return it.key }

// Value returns the current element's value. It shares the document's memory.
func (it *Iter) Value() Value { return it.value }

// size returns the length in bytes of a value of type t at the start of data.
func size(t byte, data []byte) int {
	switch bsoncore.Type(t) {
	case bsoncore.TypeDouble, bsoncore.TypeDateTime, bsoncore.TypeTimestamp, bsoncore.TypeInt64:
		return 8
	case bsoncore.TypeString, bsoncore.TypeJavaScript, bsoncore.TypeSymbol:
		return 4 + int(binary.LittleEndian.Uint32(data))
	case bsoncore.TypeEmbeddedDocument, bsoncore.TypeArray, bsoncore.TypeCodeWithScope:
		return int(binary.LittleEndian.Uint32(data))
	case bsoncore.TypeBinary:
		return 5 + int(binary.LittleEndian.Uint32(data))
	case bsoncore.TypeObjectID:
		return 12
	case bsoncore.TypeBoolean:
		return 1
	case bsoncore.TypeRegex:
		p := bytes.IndexByte(data, 0) + 1
		return p + bytes.IndexByte(data[p:], 0) + 1
	case bsoncore.TypeDBPointer:
		return 4 + int(binary.LittleEndian.Uint32(data)) + 12
	case bsoncore.TypeInt32:
		return 4
	case bsoncore.TypeDecimal128:
		return 16
	}
	return 0
}

// Lookup returns the first element named key at the top level of doc.
func Lookup(doc []byte, key string) (Value, bool) {
	for it := NewIter(doc); it.Next(); {
		if string(it.key) == key {
			return it.value, true
		}
	}
	return Value{}, false
}

// LookupPath follows a path of names through embedded documents. It does not follow a
// path into an array.
func LookupPath(doc []byte, path ...string) (Value, bool) {
	var v Value
	for i, key := range path {
		var ok bool
		if v, ok = Lookup(doc, key); !ok {
			return Value{}, false
		}
		if i < len(path)-1 {
			if v.Type != bsoncore.TypeEmbeddedDocument {
				return Value{}, false
			}
			doc = v.Data
		}
	}
	return v, true
}

// Len returns the number of elements of doc.
func Len(doc []byte) int {
	n := 0
	for it := NewIter(doc); it.Next(); {
		n++
	}
	return n
}

// Empty reports whether doc has no elements.
func Empty(doc []byte) bool { return len(doc) <= 5 }
