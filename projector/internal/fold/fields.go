package fold

import (
	"bytes"
	"iter"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// EmptyDocument is the encoding of {} and of [].
var EmptyDocument = bson.Raw{5, 0, 0, 0, 0}

// FieldReader iterates over the elements of a BSON document or array in place. It stops at
// the end, and at the first invalid byte.
type FieldReader struct {
	rest []byte
}

// ReadFields reads the elements of a document or array.
func ReadFields(doc []byte) FieldReader {
	if len(doc) < len(EmptyDocument) {
		return FieldReader{}
	}
	return FieldReader{rest: doc[4 : len(doc)-1]}
}

// Next returns the next element; its name aliases the document.
func (r *FieldReader) Next() (name []byte, value bson.RawValue, ok bool) {
	if len(r.rest) == 0 {
		return nil, bson.RawValue{}, false
	}
	// The type, the name and a zero byte precede the value.
	if end := bytes.IndexByte(r.rest[1:], 0); end >= 0 {
		if v, rest, ok := bsoncore.ReadValue(r.rest[end+2:], bsoncore.Type(r.rest[0])); ok {
			name = r.rest[1 : end+1]
			r.rest = rest
			return name, bson.RawValue{Type: bson.Type(v.Type), Value: v.Data}, true
		}
	}
	r.rest = nil
	return nil, bson.RawValue{}, false
}

// All visits the remaining elements.
func (r FieldReader) All() iter.Seq2[[]byte, bson.RawValue] {
	return func(yield func([]byte, bson.RawValue) bool) {
		for {
			name, value, ok := r.Next()
			if !ok || !yield(name, value) {
				return
			}
		}
	}
}

// Lookup finds a field in a document.
func Lookup(doc []byte, name string) (bson.RawValue, bool) {
	for key, value := range ReadFields(doc).All() {
		if string(key) == name {
			return value, true
		}
	}
	return bson.RawValue{}, false
}

// CountFields counts the elements of a document or array.
func CountFields(doc []byte) int {
	n := 0
	for range ReadFields(doc).All() {
		n++
	}
	return n
}

// Present reports whether there is a value. Null is a value.
func Present(v bson.RawValue) bool { return v.Type != 0 }

// SameBytes reports whether two values have the same type and bytes.
func SameBytes(a, b bson.RawValue) bool { return a.Type == b.Type && bytes.Equal(a.Value, b.Value) }

// AppendField appends an element to a document that is being built.
func AppendField(dst []byte, name string, v bson.RawValue) []byte {
	dst = append(dst, byte(v.Type))
	dst = append(dst, name...)
	dst = append(dst, 0)
	return append(dst, v.Value...)
}

// ArrayOf makes an array of base's elements, if there are any, and more.
func ArrayOf(base bson.RawValue, more []bson.RawValue) bson.RawValue {
	size, n := len(EmptyDocument), 0
	if Present(base) {
		size, n = len(base.Value), CountFields(base.Value)
	}
	for _, v := range more {
		size += len(v.Value) + 8
	}
	start, dst := bsoncore.AppendDocumentStart(make([]byte, 0, size))
	if Present(base) {
		dst = append(dst, base.Value[4:len(base.Value)-1]...)
	}
	for i, v := range more {
		dst = append(dst, byte(v.Type))
		dst = AppendIndex(dst, n+i)
		dst = append(dst, 0)
		dst = append(dst, v.Value...)
	}
	return bson.RawValue{Type: bson.TypeArray, Value: FinishDocument(dst, start)}
}

// FinishDocument closes a document that bsoncore has started. It cannot fail, because the
// length of each document fits an int32: a document and the values that it consists of are
// at most as large as [MaxState].
func FinishDocument(dst []byte, start int32) []byte {
	dst = append(dst, 0)
	return bsoncore.UpdateLength(dst, start, int32(len(dst))-start)
}

// ScannedBytes is how many bytes are read to find the end of an element. Names, and the two
// texts of a regular expression, have no length in BSON.
func ScannedBytes(name int, v bson.RawValue) int {
	if v.Type == bson.TypeRegex {
		return name + len(v.Value)
	}
	return name
}

// AppendIndex appends the name of an element of an array.
func AppendIndex(dst []byte, i int) []byte { return strconv.AppendInt(dst, int64(i), 10) }

// ReplaceField returns a copy of doc in which the field has the value v, at its old place
// or at the end. If v is absent, the field is removed.
func ReplaceField(doc []byte, name string, v bson.RawValue) []byte {
	start, dst := bsoncore.AppendDocumentStart(make([]byte, 0, len(doc)+len(name)+len(v.Value)+len(EmptyDocument)+2))
	done := false
	for key, value := range ReadFields(doc).All() {
		if string(key) == name {
			if Present(v) {
				dst = AppendField(dst, name, v)
			}
			done = true
			continue
		}
		dst = append(dst, byte(value.Type))
		dst = append(dst, key...)
		dst = append(dst, 0)
		dst = append(dst, value.Value...)
	}
	if !done && Present(v) {
		dst = AppendField(dst, name, v)
	}
	return FinishDocument(dst, start)
}

// ValuesOf returns the elements of an array.
func ValuesOf(array bson.RawValue) (values []bson.RawValue) {
	for _, v := range ReadFields(array.Value).All() {
		values = append(values, v)
	}
	return values
}
