package event

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// maxDepth bounds how deeply documents and arrays nest in a body. MongoDB documents a limit
// of 100 levels, and the server stores up to 180. The driver reads at most 200 levels of
// Extended JSON, and the wrappers of some types count as levels.
const maxDepth = 190

// errInexact says that Extended JSON cannot represent the document exactly.
var errInexact = errors.New("document has no exact form in extended JSON")

// maxSafeInteger is the largest integer up to which a double holds every integer, and
// Number.MAX_SAFE_INTEGER in JavaScript.
const maxSafeInteger = 1<<53 - 1

// appendJSON appends doc in relaxed Extended JSON v2, byte for byte as [bson.MarshalExtJSON]
// writes it, without reflection and intermediate values. One form differs: an integer beyond
// maxSafeInteger is {"$numberLong": "…"}, because readers that keep numbers as doubles would
// change it without an error.
// https://github.com/mongodb/specifications/blob/master/source/extended-json/extended-json.md
//
// The error is errInexact for documents that the driver would write inexactly:
//
//   - text that is not valid UTF-8, which would become U+FFFD;
//   - a document that reads as the wrapper of a type ({"$oid": …} as data);
//   - a regular expression with unsorted options;
//   - an old binary (subtype 2) without its second length;
//   - an array whose keys are not 0, 1, 2 and so on;
//   - a Decimal128 whose text gives another value;
//   - more than maxDepth levels.
//
// A document that is not valid BSON is a [*ContractError].
func appendJSON(dst []byte, doc []byte) ([]byte, error) {
	rest, err := elements(doc)
	if err != nil {
		return dst, err
	}
	return appendObject(dst, rest, 1, nil)
}

// jsonSize gives the length of what appendJSON appends, or its error. It needs memory for
// the nesting only, whatever the size of doc: some documents are 13 times as long in JSON.
func jsonSize(doc []byte) (int, error) {
	rest, err := elements(doc)
	if err != nil {
		return 0, err
	}
	size := 0
	last, err := appendObject(nil, rest, 1, &size)
	return size + len(last), err
}

// flush empties dst if only its size is wanted. The append functions call it after each
// value: size is nil if dst is wanted.
func flush(dst []byte, size *int) []byte {
	if size == nil {
		return dst
	}
	*size += len(dst)
	return dst[:0]
}

// appendObject appends a document, given its elements, as an object.
func appendObject(dst []byte, rest []byte, depth int, size *int) ([]byte, error) {
	if depth > maxDepth {
		return dst, errInexact
	}
	dst = append(dst, '{')
	for first := true; len(rest) > 0; first = false {
		name, value, tail, err := nextElement(rest)
		if err != nil {
			return dst, err
		}
		if !first {
			dst = append(dst, ',')
		} else if depth > 1 && wrapperName(name) != "" {
			return dst, errInexact
		}
		if dst, err = appendQuoted(dst, name, size); err != nil {
			return dst, err
		}
		dst = append(dst, ':')
		if dst, err = appendValue(dst, value, depth, size); err != nil {
			return dst, err
		}
		dst = flush(dst, size)
		rest = tail
	}
	return append(dst, '}'), nil
}

func appendArray(dst []byte, rest []byte, depth int, size *int) ([]byte, error) {
	if depth > maxDepth {
		return dst, errInexact
	}
	dst = append(dst, '[')
	for i := 0; len(rest) > 0; i++ {
		name, value, tail, err := nextElement(rest)
		if err != nil {
			return dst, err
		}
		if !isIndex(name, i) {
			return dst, errInexact
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendValue(dst, value, depth, size); err != nil {
			return dst, err
		}
		dst = flush(dst, size)
		rest = tail
	}
	return append(dst, ']'), nil
}

// isIndex reports whether the key of an array's element is i. Some writers store other
// keys, which JSON cannot represent.
func isIndex(name []byte, i int) bool {
	const maxDigits = 20
	var digits [maxDigits]byte
	return bytes.Equal(name, strconv.AppendInt(digits[:0], int64(i), 10))
}

func appendValue(dst []byte, v bson.RawValue, depth int, size *int) ([]byte, error) {
	switch v.Type {
	case bson.TypeString:
		return appendQuoted(dst, stringBytes(v), size)
	case bson.TypeInt32:
		return strconv.AppendInt(dst, int64(int32(binary.LittleEndian.Uint32(v.Value))), 10), nil
	case bson.TypeInt64:
		return appendInteger(dst, int64(binary.LittleEndian.Uint64(v.Value))), nil
	case bson.TypeDouble:
		return appendDouble(dst, math.Float64frombits(binary.LittleEndian.Uint64(v.Value))), nil
	case bson.TypeBoolean:
		switch v.Value[0] {
		case 0:
			return append(dst, "false"...), nil
		case 1:
			return append(dst, "true"...), nil
		}
		return dst, malformed("boolean is 0x%02x", v.Value[0])
	case bson.TypeNull:
		return append(dst, "null"...), nil
	case bson.TypeEmbeddedDocument:
		rest, err := elements(v.Value)
		if err != nil {
			return dst, err
		}
		return appendObject(dst, rest, depth+1, size)
	case bson.TypeArray:
		rest, err := elements(v.Value)
		if err != nil {
			return dst, err
		}
		return appendArray(dst, rest, depth+1, size)
	case bson.TypeDateTime:
		return appendDate(dst, int64(binary.LittleEndian.Uint64(v.Value))), nil
	case bson.TypeObjectID:
		dst = append(dst, `{"$oid":"`...)
		dst = hex.AppendEncode(dst, v.Value)
		return append(dst, `"}`...), nil
	case bson.TypeBinary:
		return appendBinary(dst, v.Value, size)
	case bson.TypeDecimal128:
		return appendDecimal(dst, v.Decimal128())
	default:
		return appendRare(dst, v, depth, size)
	}
}

// appendRare appends the types that are rare in events.
func appendRare(dst []byte, v bson.RawValue, depth int, size *int) ([]byte, error) {
	var err error
	switch v.Type {
	case bson.TypeTimestamp:
		dst = append(dst, `{"$timestamp":{"t":`...)
		dst = strconv.AppendUint(dst, uint64(binary.LittleEndian.Uint32(v.Value[4:])), 10)
		dst = append(dst, `,"i":`...)
		dst = strconv.AppendUint(dst, uint64(binary.LittleEndian.Uint32(v.Value)), 10)
		return append(dst, `}}`...), nil
	case bson.TypeUndefined:
		return append(dst, `{"$undefined":true}`...), nil
	case bson.TypeMinKey:
		return append(dst, `{"$minKey":1}`...), nil
	case bson.TypeMaxKey:
		return append(dst, `{"$maxKey":1}`...), nil
	case bson.TypeSymbol:
		if dst, err = appendQuoted(append(dst, `{"$symbol":`...), stringBytes(v), size); err != nil {
			return dst, err
		}
		return append(dst, '}'), nil
	case bson.TypeJavaScript:
		if dst, err = appendQuoted(append(dst, `{"$code":`...), stringBytes(v), size); err != nil {
			return dst, err
		}
		return append(dst, '}'), nil
	case bson.TypeRegex:
		return appendRegex(dst, v.Value, size)
	case bson.TypeDBPointer:
		namespace, id := v.Value[4:len(v.Value)-13], v.Value[len(v.Value)-12:]
		if dst, err = appendQuoted(append(dst, `{"$dbPointer":{"$ref":`...), namespace, size); err != nil {
			return dst, err
		}
		dst = append(dst, `,"$id":{"$oid":"`...)
		dst = hex.AppendEncode(dst, id)
		return append(dst, `"}}}`...), nil
	case bson.TypeCodeWithScope:
		code, scope, err := splitCodeWithScope(v.Value)
		if err != nil {
			return dst, err
		}
		if dst, err = appendQuoted(append(dst, `{"$code":`...), code, size); err != nil {
			return dst, err
		}
		dst = append(dst, `,"$scope":`...)
		// The scope lies two levels deeper: its wrapper is an object too.
		if dst, err = appendObject(dst, scope, depth+2, size); err != nil {
			return dst, err
		}
		return append(dst, '}'), nil
	default:
		return dst, malformed("unknown BSON type 0x%02x", byte(v.Type))
	}
}

func appendInteger(dst []byte, n int64) []byte {
	if -maxSafeInteger <= n && n <= maxSafeInteger {
		return strconv.AppendInt(dst, n, 10)
	}
	dst = append(dst, `{"$numberLong":"`...)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, `"}`...)
}

// appendDouble marks a whole number as a double by ".0".
func appendDouble(dst []byte, f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(dst, `{"$numberDouble":"Infinity"}`...)
	case math.IsInf(f, -1):
		return append(dst, `{"$numberDouble":"-Infinity"}`...)
	case math.IsNaN(f):
		return append(dst, `{"$numberDouble":"NaN"}`...)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'G', -1, 64)
	for _, c := range dst[start:] {
		if c == '.' || c == 'E' {
			return dst
		}
	}
	return append(dst, ".0"...)
}

// appendDate writes the years 1970 to 9999 as text, as relaxed Extended JSON requires.
func appendDate(dst []byte, millis int64) []byte {
	t := time.UnixMilli(millis).UTC()
	if year := t.Year(); year < 1970 || year > 9999 {
		dst = append(dst, `{"$date":{"$numberLong":"`...)
		dst = strconv.AppendInt(dst, millis, 10)
		return append(dst, `"}}`...)
	}
	dst = append(dst, `{"$date":"`...)
	// millis gives at most three digits of a second, and package time has a fast path for
	// this layout.
	dst = t.AppendFormat(dst, time.RFC3339Nano)
	return append(dst, `"}`...)
}

// appendDecimal refuses values whose text gives another value: NaNs with a payload, and
// coefficients that are too large.
func appendDecimal(dst []byte, d bson.Decimal128) ([]byte, error) {
	text := d.String()
	if back, err := bson.ParseDecimal128(text); err != nil || back != d {
		return dst, errInexact
	}
	dst = append(dst, `{"$numberDecimal":"`...)
	dst = append(dst, text...)
	return append(dst, `"}`...), nil
}

func appendBinary(dst []byte, value []byte, size *int) ([]byte, error) {
	subtype, data := value[4], value[5:]
	if subtype == bson.TypeBinaryBinaryOld {
		// A binary of subtype 2 holds its length twice, but some writers omit the second
		// one.
		if len(data) < 4 || uint64(binary.LittleEndian.Uint32(data)) != uint64(len(data)-4) {
			return dst, errInexact
		}
		data = data[4:]
	}
	dst = append(dst, `{"$binary":{"base64":"`...)
	if size == nil {
		dst = base64.StdEncoding.AppendEncode(dst, data)
	} else {
		*size += base64.StdEncoding.EncodedLen(len(data))
	}
	dst = append(dst, `","subType":"`...)
	return append(dst, hexDigits[subtype>>4], hexDigits[subtype&15], '"', '}', '}'), nil
}

func appendRegex(dst []byte, value []byte, size *int) ([]byte, error) {
	pattern, options := splitRegex(value)
	for i := 1; i < len(options); i++ {
		if options[i-1] > options[i] {
			return dst, errInexact
		}
	}
	dst, err := appendQuoted(append(dst, `{"$regularExpression":{"pattern":`...), pattern, size)
	if err != nil {
		return dst, err
	}
	if dst, err = appendQuoted(append(dst, `,"options":`...), options, size); err != nil {
		return dst, err
	}
	return append(dst, `}}`...), nil
}

// wrapperName gives key if an object that begins with it is read as a value of another
// type, otherwise the empty string.
func wrapperName(key []byte) string {
	if len(key) == 0 || key[0] != '$' {
		return ""
	}
	for _, name := range wrapperNames {
		if string(key) == name {
			return name
		}
	}
	return ""
}

// wrapperNames are in the order of their frequency in events.
var wrapperNames = [...]string{
	"$date", "$oid", "$binary", "$uuid", "$numberDecimal", "$numberLong", "$numberInt", "$numberDouble",
	"$timestamp", "$regularExpression", "$code", "$scope", "$dbPointer", "$symbol", "$minKey", "$maxKey", "$undefined",
}

// plain marks the ASCII characters that need no escape in a JSON string.
var plain = func() (set [utf8.RuneSelf]bool) {
	for c := range set {
		set[c] = c >= ' ' && c != '"' && c != '\\'
	}
	return set
}()

// appendQuoted appends s as a JSON string.
func appendQuoted(dst []byte, s []byte, size *int) ([]byte, error) {
	if size != nil {
		n, err := quotedSize(s)
		*size += n
		return dst, err
	}
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if plain[c] {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			dst = appendEscaped(dst, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRune(s[i:])
		if r == utf8.RuneError && size == 1 {
			return dst, errInexact
		}
		// The line separators are legal in JSON and not in JavaScript.
		if r == '\u2028' || r == '\u2029' {
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hexDigits[r&15])
			i += size
			start = i
			continue
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"'), nil
}

// quotedSize gives the length of what appendQuoted appends, or its error.
func quotedSize(s []byte) (int, error) {
	if !utf8.Valid(s) {
		return 0, errInexact
	}
	const quotes, longer = 2, len(`\u2028`) - len("\u2028")
	size := quotes + len(s) + longer*(bytes.Count(s, []byte("\u2028"))+bytes.Count(s, []byte("\u2029")))
	var escaped [8]byte
	for _, c := range s {
		if c < utf8.RuneSelf && !plain[c] {
			size += len(appendEscaped(escaped[:0], c)) - 1
		}
	}
	return size, nil
}

func appendEscaped(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
	}
}
