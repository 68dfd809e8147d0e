package bsonraw

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// MaxDepth is the maximum nesting depth of documents in messages. MaxStored is that of stored
// documents, whose empty subdocuments do not count (validateDepth in the server's insert.cpp).
const (
	MaxDepth  = 200
	MaxStored = 180
)

// ErrInvalid is wrapped by the errors of [Validate].
var ErrInvalid = errors.New("invalid BSON")

// Validate checks that doc is exactly one well-formed document with a nesting depth of at
// most [MaxDepth]. Like the server, it does not check that names and strings are UTF-8.
func Validate(doc []byte) error {
	return validate(doc, 0)
}

func validate(doc []byte, depth int) error {
	if depth > MaxDepth {
		return fmt.Errorf("%w: nested deeper than %d", ErrInvalid, MaxDepth)
	}
	if len(doc) < 5 || int64(binary.LittleEndian.Uint32(doc)) != int64(len(doc)) || doc[len(doc)-1] != 0 {
		return fmt.Errorf("%w: document length does not match its bytes", ErrInvalid)
	}
	rest := doc[4 : len(doc)-1]
	for len(rest) > 0 {
		t := rest[0]
		end := bytes.IndexByte(rest[1:], 0)
		if end < 0 {
			return fmt.Errorf("%w: unterminated field name", ErrInvalid)
		}
		data := rest[2+end:]
		n, err := checkedSize(t, data, depth)
		if err != nil {
			return err
		}
		rest = data[n:]
	}
	return nil
}

// Deeper reports whether a document has more than limit levels.
func Deeper(doc []byte, limit int) bool {
	if limit == 0 {
		return len(doc) > 5
	}
	for it := NewIter(doc); it.Next(); {
		v := it.Value()
		if (v.Type == bsoncore.TypeEmbeddedDocument || v.Type == bsoncore.TypeArray) && Deeper(v.Data, limit-1) {
			return true
		}
	}
	return false
}

func checkedSize(t byte, data []byte, depth int) (int, error) {
	short := func() (int, error) {
		return 0, fmt.Errorf("%w: value of type 0x%02x is cut short", ErrInvalid, t)
	}
	length := func(extra int) (int, bool) {
		if len(data) < 4 {
			return 0, false
		}
		n := int64(binary.LittleEndian.Uint32(data)) + int64(extra)
		if n > int64(len(data)) {
			return 0, false
		}
		return int(n), true
	}
	fixed := func(n int) (int, error) {
		if len(data) < n {
			return short()
		}
		return n, nil
	}
	switch bsoncore.Type(t) {
	case bsoncore.TypeUndefined, bsoncore.TypeNull, bsoncore.TypeMinKey, bsoncore.TypeMaxKey:
		return 0, nil
	case bsoncore.TypeBoolean:
		if len(data) < 1 || data[0] > 1 {
			return short()
		}
		return 1, nil
	case bsoncore.TypeInt32:
		return fixed(4)
	case bsoncore.TypeDouble, bsoncore.TypeDateTime, bsoncore.TypeTimestamp, bsoncore.TypeInt64:
		return fixed(8)
	case bsoncore.TypeObjectID:
		return fixed(12)
	case bsoncore.TypeDecimal128:
		return fixed(16)
	case bsoncore.TypeString, bsoncore.TypeJavaScript, bsoncore.TypeSymbol:
		n, ok := length(4)
		if !ok || n < 5 || data[n-1] != 0 {
			return short()
		}
		return n, nil
	case bsoncore.TypeDBPointer:
		n, ok := length(16)
		if !ok || n < 17 || data[n-13] != 0 {
			return short()
		}
		return n, nil
	case bsoncore.TypeBinary:
		n, ok := length(5)
		if !ok {
			return short()
		}
		return n, nil
	case bsoncore.TypeEmbeddedDocument, bsoncore.TypeArray:
		n, ok := length(0)
		if !ok {
			return short()
		}
		return n, validate(data[:n], depth+1)
	case bsoncore.TypeCodeWithScope:
		n, ok := length(0)
		if !ok || n < 14 {
			return short()
		}
		code := int64(binary.LittleEndian.Uint32(data[4:]))
		if code < 1 || 8+code > int64(n)-5 || data[8+code-1] != 0 {
			return short()
		}
		return n, validate(data[8+code:n], depth+1)
	case bsoncore.TypeRegex:
		p := bytes.IndexByte(data, 0)
		if p < 0 {
			return short()
		}
		o := bytes.IndexByte(data[p+1:], 0)
		if o < 0 {
			return short()
		}
		return p + o + 2, nil
	}
	return 0, fmt.Errorf("%w: unknown type 0x%02x", ErrInvalid, t)
}
