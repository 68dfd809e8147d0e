package bsonraw

import (
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// AppendElement appends one element with a name and a value.
func AppendElement(dst, key []byte, v Value) []byte {
	dst = append(dst, byte(v.Type))
	dst = append(dst, key...)
	dst = append(dst, 0)
	return append(dst, v.Data...)
}

// Builder builds a document element by element. Start and End nest documents and arrays.
// The zero Builder can hold the elements of one document.
type Builder struct {
	buf    []byte
	starts []int
}

// NewBuilder starts a document, with an initial capacity of n bytes.
func NewBuilder(n int) *Builder {
	b := &Builder{buf: make([]byte, 0, n)}
	return b.open()
}

// Grow makes room for n more bytes.
func (b *Builder) Grow(n int) { b.buf = slices.Grow(b.buf, n) }

func (b *Builder) open() *Builder {
	b.starts = append(b.starts, len(b.buf))
	b.buf = append(b.buf, 0, 0, 0, 0)
	return b
}

// Value adds an element of any type. An absent value adds nothing.
func (b *Builder) Value(key string, v Value) *Builder {
	if IsMissing(v) {
		return b
	}
	b.buf = bsoncore.AppendHeader(b.buf, v.Type, key)
	b.buf = append(b.buf, v.Data...)
	return b
}

// Raw adds an element whose name is a byte slice.
func (b *Builder) Raw(key []byte, v Value) *Builder {
	b.buf = AppendElement(b.buf, key, v)
	return b
}

// Elements adds all elements of a document.
func (b *Builder) Elements(doc []byte) *Builder {
	b.buf = append(b.buf, doc[4:len(doc)-1]...)
	return b
}

// Int32 adds a 32-bit integer.
func (b *Builder) Int32(key string, n int32) *Builder {
	b.buf = bsoncore.AppendInt32Element(b.buf, key, n)
	return b
}

// Int64 adds a 64-bit integer.
func (b *Builder) Int64(key string, n int64) *Builder {
	b.buf = bsoncore.AppendInt64Element(b.buf, key, n)
	return b
}

// Double adds a double.
func (b *Builder) Double(key string, f float64) *Builder {
	b.buf = bsoncore.AppendDoubleElement(b.buf, key, f)
	return b
}

// String adds a string.
func (b *Builder) String(key, s string) *Builder {
	b.buf = bsoncore.AppendStringElement(b.buf, key, s)
	return b
}

// Bool adds a boolean.
func (b *Builder) Bool(key string, v bool) *Builder {
	b.buf = bsoncore.AppendBooleanElement(b.buf, key, v)
	return b
}

// Null adds a null.
func (b *Builder) Null(key string) *Builder {
	b.buf = bsoncore.AppendNullElement(b.buf, key)
	return b
}

// Time adds a date, truncated to milliseconds.
func (b *Builder) Time(key string, t time.Time) *Builder {
	b.buf = bsoncore.AppendDateTimeElement(b.buf, key, t.UnixMilli())
	return b
}

// Timestamp adds a timestamp.
func (b *Builder) Timestamp(key string, ts bson.Timestamp) *Builder {
	b.buf = bsoncore.AppendTimestampElement(b.buf, key, ts.T, ts.I)
	return b
}

// ObjectID adds an ObjectId.
func (b *Builder) ObjectID(key string, id bson.ObjectID) *Builder {
	b.buf = bsoncore.AppendObjectIDElement(b.buf, key, id)
	return b
}

// Binary adds binary data of the given subtype.
func (b *Builder) Binary(key string, subtype byte, data []byte) *Builder {
	b.buf = bsoncore.AppendBinaryElement(b.buf, key, subtype, data)
	return b
}

// Document adds a whole document as an element.
func (b *Builder) Document(key string, doc []byte) *Builder {
	b.buf = bsoncore.AppendDocumentElement(b.buf, key, doc)
	return b
}

// Start opens an embedded document; End closes it.
func (b *Builder) Start(key string) *Builder {
	b.buf = bsoncore.AppendHeader(b.buf, bsoncore.TypeEmbeddedDocument, key)
	return b.open()
}

// StartArray opens an array; End closes it. The caller names the elements "0", "1" and so
// on with [Index].
func (b *Builder) StartArray(key string) *Builder {
	b.buf = bsoncore.AppendHeader(b.buf, bsoncore.TypeArray, key)
	return b.open()
}

// End closes the innermost open document or array.
func (b *Builder) End() *Builder {
	start := b.starts[len(b.starts)-1]
	b.starts = b.starts[:len(b.starts)-1]
	b.buf = append(b.buf, 0)
	binary.LittleEndian.PutUint32(b.buf[start:], uint32(len(b.buf)-start))
	return b
}

// Strings adds an array of strings.
func (b *Builder) Strings(key string, values ...string) *Builder {
	b.StartArray(key)
	for i, s := range values {
		b.String(Index(i), s)
	}
	return b.End()
}

// Bytes closes all open documents and arrays and returns the document.
func (b *Builder) Bytes() []byte {
	for len(b.starts) > 0 {
		b.End()
	}
	return b.buf
}

const smallIndexes = 1024

var indexNames = func() [smallIndexes]string {
	var names [smallIndexes]string
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}()

// Index returns the name of the i-th array element.
func Index(i int) string {
	if i >= 0 && i < smallIndexes {
		return indexNames[i]
	}
	return strconv.Itoa(i)
}

// Array returns an array value.
func Array(values []Value) Value {
	n := 5
	for _, v := range values {
		n += len(v.Data) + 6
	}
	b := NewBuilder(n)
	for i, v := range values {
		b.Value(Index(i), v)
	}
	return Value{Type: bsoncore.TypeArray, Data: b.Bytes()}
}

// Elements returns the values of an array.
func Elements(arr []byte) []Value {
	var values []Value
	for it := NewIter(arr); it.Next(); {
		values = append(values, it.value)
	}
	return values
}
