package projection

import (
	"bytes"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// emptyDocument is the encoding of {} and of [].
var emptyDocument = bson.Raw{5, 0, 0, 0, 0}

// fieldReader iterates over the elements of a BSON document or array in place. It stops at
// the end, and at the first invalid byte.
type fieldReader struct {
	rest []byte
}

func readFields(doc []byte) fieldReader {
	if len(doc) < len(emptyDocument) {
		return fieldReader{}
	}
	return fieldReader{rest: doc[4 : len(doc)-1]}
}

// next returns the next element; its name aliases the document.
func (r *fieldReader) next() (name []byte, value bson.RawValue, ok bool) {
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

// all visits the remaining elements.
func (r fieldReader) all() iter.Seq2[[]byte, bson.RawValue] {
	return func(yield func([]byte, bson.RawValue) bool) {
		for {
			name, value, ok := r.next()
			if !ok || !yield(name, value) {
				return
			}
		}
	}
}

// lookup finds a field in a document.
func lookup(doc []byte, name string) (bson.RawValue, bool) {
	for key, value := range readFields(doc).all() {
		if string(key) == name {
			return value, true
		}
	}
	return bson.RawValue{}, false
}

// countFields counts the elements of a document or array.
func countFields(doc []byte) int {
	n := 0
	for range readFields(doc).all() {
		n++
	}
	return n
}

// present reports whether there is a value. Null is a value.
func present(v bson.RawValue) bool { return v.Type != 0 }

// sameBytes reports whether two values have the same type and bytes.
func sameBytes(a, b bson.RawValue) bool { return a.Type == b.Type && bytes.Equal(a.Value, b.Value) }

func appendField(dst []byte, name string, v bson.RawValue) []byte {
	dst = append(dst, byte(v.Type))
	dst = append(dst, name...)
	dst = append(dst, 0)
	return append(dst, v.Value...)
}

// arrayOf makes an array of base's elements, if there are any, and more.
func arrayOf(base bson.RawValue, more []bson.RawValue) bson.RawValue {
	size, n := len(emptyDocument), 0
	if present(base) {
		size, n = len(base.Value), countFields(base.Value)
	}
	for _, v := range more {
		size += len(v.Value) + 8
	}
	start, dst := bsoncore.AppendDocumentStart(make([]byte, 0, size))
	if present(base) {
		dst = append(dst, base.Value[4:len(base.Value)-1]...)
	}
	for i, v := range more {
		dst = append(dst, byte(v.Type))
		dst = appendIndex(dst, n+i)
		dst = append(dst, 0)
		dst = append(dst, v.Value...)
	}
	return bson.RawValue{Type: bson.TypeArray, Value: finishDocument(dst, start)}
}

// finishDocument closes a document that bsoncore has started. It cannot fail, because the
// length of each document fits an int32: a document and the values that it consists of are
// at most as large as [maxState].
func finishDocument(dst []byte, start int32) []byte {
	dst = append(dst, 0)
	return bsoncore.UpdateLength(dst, start, int32(len(dst))-start)
}
