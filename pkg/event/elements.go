package event

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// elements gives the bytes of doc's elements, between its length and its closing
// NUL.
func elements(doc []byte) ([]byte, error) {
	if len(doc) < 5 {
		return nil, malformed("document has only %d bytes", len(doc))
	}
	if n := binary.LittleEndian.Uint32(doc); uint64(n) != uint64(len(doc)) {
		return nil, malformed("document has %d bytes and declares %d", len(doc), n)
	}
	if doc[len(doc)-1] != 0 {
		return nil, malformed("document does not end with NUL")
	}
	return doc[4 : len(doc)-1], nil
}

// nextElement splits the first element off b, which is not empty. The name and
// the value alias b.
func nextElement(b []byte) (name []byte, value bson.RawValue, rest []byte, err error) {
	t := bson.Type(b[0])
	end := bytes.IndexByte(b[1:], 0)
	if end < 0 {
		return nil, value, nil, malformed("field name does not end with NUL")
	}
	name, rest = b[1:1+end], b[2+end:]
	size, err := valueSize(t, rest)
	if err != nil {
		return nil, value, nil, err
	}
	return name, bson.RawValue{Type: t, Value: rest[:size:size]}, rest[size:], nil
}

// valueSize is the length of the value of type t at the start of b. It checks that b holds
// the value, that the lengths inside it are consistent and that a string ends with NUL. It
// does not check nested documents.
func valueSize(t bson.Type, b []byte) (int, error) {
	var size int
	switch t {
	case bson.TypeNull, bson.TypeUndefined, bson.TypeMinKey, bson.TypeMaxKey:
		size = 0
	case bson.TypeBoolean:
		size = 1
	case bson.TypeInt32:
		size = 4
	case bson.TypeDouble, bson.TypeInt64, bson.TypeDateTime, bson.TypeTimestamp:
		size = 8
	case bson.TypeObjectID:
		size = 12
	case bson.TypeDecimal128:
		size = 16
	case bson.TypeString, bson.TypeJavaScript, bson.TypeSymbol:
		return stringSize(t, b, 0)
	case bson.TypeDBPointer:
		return stringSize(t, b, 12)
	case bson.TypeBinary:
		if len(b) < 5 {
			return 0, short(t)
		}
		n := binary.LittleEndian.Uint32(b)
		if uint64(n)+5 > uint64(len(b)) {
			return 0, short(t)
		}
		size = int(n) + 5
	case bson.TypeEmbeddedDocument, bson.TypeArray, bson.TypeCodeWithScope:
		if len(b) < 4 {
			return 0, short(t)
		}
		n := binary.LittleEndian.Uint32(b)
		if uint64(n) > uint64(len(b)) || n < 5 {
			return 0, short(t)
		}
		size = int(n)
	case bson.TypeRegex:
		pattern := bytes.IndexByte(b, 0)
		if pattern < 0 {
			return 0, short(t)
		}
		options := bytes.IndexByte(b[pattern+1:], 0)
		if options < 0 {
			return 0, short(t)
		}
		size = pattern + options + 2
	default:
		return 0, malformed("unknown BSON type 0x%02x", byte(t))
	}
	if len(b) < size {
		return 0, short(t)
	}
	return size, nil
}

// stringSize is the length of a string at the start of b, and of the after bytes that
// follow it.
func stringSize(t bson.Type, b []byte, after int) (int, error) {
	if len(b) < 5 {
		return 0, short(t)
	}
	n := binary.LittleEndian.Uint32(b)
	if n < 1 || uint64(n)+4+uint64(after) > uint64(len(b)) {
		return 0, short(t)
	}
	if b[3+n] != 0 {
		return 0, malformed("%s does not end with NUL", t)
	}
	return 4 + int(n) + after, nil
}

// splitRegex gives the pattern and the options of a regular expression that
// valueSize has checked.
func splitRegex(value []byte) (pattern, options []byte) {
	end := bytes.IndexByte(value, 0)
	return value[:end], value[end+1 : len(value)-1]
}

// splitCodeWithScope gives the code and the elements of the scope of a value whose
// length valueSize has checked.
func splitCodeWithScope(value []byte) (code, scope []byte, err error) {
	body := value[4:]
	size, err := stringSize(bson.TypeCodeWithScope, body, 0)
	if err != nil {
		return nil, nil, err
	}
	scope, err = elements(body[size:])
	return body[4 : size-1], scope, err
}

// validate checks doc completely: lengths, types, terminators, and that
// nothing nests deeper than maxDepth. It reports whether doc is canonical, and by how many
// bytes its canonical form is larger.
func validate(doc []byte, depth int) (canonical bool, grows int, err error) {
	if depth > maxDepth {
		return false, 0, malformed("more than %d levels", maxDepth)
	}
	rest, err := elements(doc)
	if err != nil {
		return false, 0, err
	}
	canonical = true
	for len(rest) > 0 {
		var v bson.RawValue
		_, v, rest, err = nextElement(rest)
		if err != nil {
			return false, 0, err
		}
		inner, more := true, 0
		switch v.Type {
		case bson.TypeInt32:
			inner, more = false, 4
		case bson.TypeDouble:
			is, isCanonical := isNaN(v)
			inner = !is || isCanonical
		case bson.TypeEmbeddedDocument, bson.TypeArray:
			inner, more, err = validate(v.Value, depth+1)
		case bson.TypeCodeWithScope:
			var scope []byte
			if _, scope, err = splitCodeWithScope(v.Value); err == nil {
				// These are the scope's elements: its document has 4 bytes before them
				// and 1 behind.
				inner, more, err = validate(v.Value[len(v.Value)-len(scope)-5:], depth+1)
			}
		case bson.TypeBoolean:
			if v.Value[0] > 1 {
				err = malformed("boolean is 0x%02x", v.Value[0])
			}
		}
		if err != nil {
			return false, 0, err
		}
		canonical, grows = canonical && inner, grows+more
	}
	return canonical, grows, nil
}

// stringBytes gives the text of a string value that valueSize has checked.
func stringBytes(v bson.RawValue) []byte { return v.Value[4 : len(v.Value)-1] }

func short(t bson.Type) error { return malformed("%s is cut short", t) }

func malformed(format string, args ...any) error {
	return &ContractError{Reason: ReasonMalformed, Detail: fmt.Sprintf(format, args...)}
}
