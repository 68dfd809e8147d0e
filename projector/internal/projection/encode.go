package projection

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// maxDepth bounds how deep a value nests inside its document. MongoDB documents a limit of
// 100 levels, although the server stores up to 180:
// https://www.mongodb.com/docs/manual/reference/limits/#bson-documents
const maxDepth = 90

// encodeValue encodes the result of an expression as BSON:
//
//   - int becomes int64;
//   - double, string, bool and null become the BSON types of the same names;
//   - timestamp becomes a date, cut to the millisecond;
//   - bytes become binary of subtype 0;
//   - list and map become array and document. The keys of a map must be strings. They are
//     stored in sorted order, like the loops over a map that an expression has made.
//
// Documents, arrays and values of other BSON types from the event or the state are copied
// byte for byte. Durations, types and functions cannot be encoded, nor can a value that is
// larger than [fold.MaxState].
func encodeValue(v ref.Val, m *meter) (bson.RawValue, error) {
	m.charge(v)
	if raw, ok := rawOf(v); ok {
		return raw, checkCopy(raw, 0)
	}
	t, data, err := m.appendCharged(nil, v, 0)
	if err == nil && len(data) > fold.MaxState {
		err = fold.ErrOutgrown
	}
	return bson.RawValue{Type: t, Value: data}, err
}

// charge charges the encoding of a value without its members. Each part of a value is charged before
// it is appended.
func (m *meter) charge(v ref.Val) {
	const scalar = 8
	n := scalar
	switch v := v.(type) {
	case types.String, types.Bytes, opaque:
		n += textSize(v)
	case *documentValue:
		n = len(v.raw)
	case *arrayValue:
		n = v.bytes()
	}
	m.spend(0, n)
}

// rawOf returns a value that is copied byte for byte.
func rawOf(v ref.Val) (bson.RawValue, bool) {
	switch v := v.(type) {
	case *documentValue:
		return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: v.raw}, true
	case *arrayValue:
		if len(v.more) == 0 {
			return v.raw, true
		}
		return fold.ArrayOf(v.raw, v.more), true
	case opaque:
		return v.raw, true
	}
	return bson.RawValue{}, false
}

// checkCopy checks a value of the event or the state that is copied, with depth levels around it.
// It nests at most [maxDepth] levels deep: otherwise each event could put the document of the last
// one into another, and MongoDB answers a document that is too deep as an invalid command, so that
// the write would be retried. Its texts are valid UTF-8, because drivers of other languages refuse
// a document with any other.
func checkCopy(v bson.RawValue, depth int) error {
	switch v.Type {
	case bson.TypeString:
		if s, ok := textOf(v); ok && !utf8.ValidString(s) {
			return errNotUTF8
		}
		return nil
	case bson.TypeEmbeddedDocument, bson.TypeArray:
	default:
		return nil
	}
	if depth >= maxDepth {
		return errTooDeep
	}
	for _, member := range fold.ReadFields(v.Value).All() {
		if err := checkCopy(member, depth+1); err != nil {
			return err
		}
	}
	return nil
}

var (
	errTooDeep = fmt.Errorf("value nests deeper than %d levels", maxDepth)
	errNotUTF8 = errors.New("string is not valid UTF-8")
)

// appendCharged appends the encoding of v, which is charged, to dst and returns its type.
func (m *meter) appendCharged(dst []byte, v ref.Val, depth int) (bson.Type, []byte, error) {
	if depth > maxDepth {
		return 0, dst, errTooDeep
	}
	if raw, ok := rawOf(v); ok {
		return raw.Type, append(dst, raw.Value...), checkCopy(raw, depth)
	}
	switch v := v.(type) {
	case types.String:
		if !utf8.ValidString(string(v)) {
			return 0, dst, errNotUTF8
		}
		return bson.TypeString, bsoncore.AppendString(dst, string(v)), nil
	case types.Int:
		return bson.TypeInt64, bsoncore.AppendInt64(dst, int64(v)), nil
	case types.Double:
		return bson.TypeDouble, bsoncore.AppendDouble(dst, float64(v)), nil
	case types.Bool:
		return bson.TypeBoolean, bsoncore.AppendBoolean(dst, bool(v)), nil
	case types.Null:
		return bson.TypeNull, dst, nil
	case types.Timestamp:
		return bson.TypeDateTime, bsoncore.AppendDateTime(dst, v.UnixMilli()), nil
	case types.Bytes:
		return bson.TypeBinary, bsoncore.AppendBinary(dst, bson.TypeBinaryGeneric, v), nil
	case types.Duration:
		return 0, dst, errDuration
	case *types.Optional:
		return 0, dst, fmt.Errorf("optional value inside another: use .orValue() or [?…]")
	case traits.Mapper:
		dst, err := m.appendMap(dst, v, depth)
		return bson.TypeEmbeddedDocument, dst, err
	case traits.Lister:
		dst, err := m.appendList(dst, v, depth)
		return bson.TypeArray, dst, err
	}
	return 0, dst, fmt.Errorf("%s cannot be stored as BSON", v.Type().TypeName())
}

func (m *meter) appendMap(dst []byte, from traits.Mapper, depth int) ([]byte, error) {
	entries := sortedEntries(from, m)
	for _, entry := range entries {
		name, ok := entry.key.(types.String)
		if !ok {
			return dst, fmt.Errorf("map key %v is %s: document fields need a string", entry.key, entry.key.Type().TypeName())
		}
		if strings.IndexByte(string(name), 0) >= 0 || !utf8.ValidString(string(name)) {
			return dst, fmt.Errorf("map key %q is not a valid field name", string(name))
		}
	}
	start, dst := bsoncore.AppendDocumentStart(dst)
	for i, entry := range entries {
		key, value := entry.key.(types.String), entry.value
		if i > 0 && key == entries[i-1].key {
			continue // a document of the event store can have a field twice
		}
		var err error
		if dst, err = m.appendMember(dst, value, depth, func(dst []byte) []byte { return append(dst, key...) }); err != nil {
			return dst, fmt.Errorf("%s: %w", key, err)
		}
	}
	return fold.FinishDocument(dst, start), nil
}

func (m *meter) appendList(dst []byte, l traits.Lister, depth int) ([]byte, error) {
	start, dst := bsoncore.AppendDocumentStart(dst)
	i := 0
	for it := l.Iterator(); it.HasNext() == types.True; i++ {
		var err error
		if dst, err = m.appendMember(dst, it.Next(), depth, func(dst []byte) []byte { return fold.AppendIndex(dst, i) }); err != nil {
			return dst, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return fold.FinishDocument(dst, start), nil
}

// appendMember appends an element of a document: its type, which is known only after the
// value is encoded, its name and its value.
func (m *meter) appendMember(dst []byte, v ref.Val, depth int, name func([]byte) []byte) ([]byte, error) {
	at := len(dst)
	if at > fold.MaxState {
		return dst, fold.ErrOutgrown
	}
	dst = name(append(dst, 0))
	m.charge(v)
	m.spend(0, len(dst)-at+1)
	t, dst, err := m.appendCharged(append(dst, 0), v, depth+1)
	if err != nil {
		return dst, err
	}
	dst[at] = byte(t)
	return dst, nil
}
