package event

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// decodeJSON decodes an object of Extended JSON v2, relaxed or canonical, into BSON in one
// pass, in the form of Canonical. It reads wrappers and fractional numbers as the driver
// does. It refuses input that RFC 8259 forbids and the driver accepts: bytes after the
// object, control characters, and text that is not valid UTF-8.
func decodeJSON(body []byte) (bson.Raw, error) {
	d := jsonDecoder{in: body, out: make([]byte, 0, len(body)+64)}
	if err := d.document(); err != nil {
		return nil, err
	}
	return d.out, nil
}

// ParseJSON decodes a text with one value of Extended JSON v2 as decodeJSON does.
func ParseJSON(text string) (bson.RawValue, error) {
	const before, after = `{"v":`, `}`
	in := make([]byte, 0, len(before)+len(text)+len(after))
	doc, err := decodeJSON(append(append(append(in, before...), text...), after...))
	if err != nil {
		return bson.RawValue{}, err
	}
	elements, err := doc.Elements()
	if err != nil || len(elements) != 1 {
		return bson.RawValue{}, malformed("the text has more than one value")
	}
	return elements[0].Value(), nil
}

// jsonDecoder reads JSON from in and appends its BSON to out.
type jsonDecoder struct {
	in  []byte
	at  int
	out []byte
	// text holds a string that had to be unescaped.
	text []byte
}

func (d *jsonDecoder) document() error {
	if d.next() != '{' {
		return d.unexpected("an object")
	}
	if err := d.object(1); err != nil {
		return err
	}
	if d.next(); d.at < len(d.in) {
		return d.unexpected("the end")
	}
	return nil
}

// next skips white space and gives the next byte without consuming it; 0 at the end.
func (d *jsonDecoder) next() byte {
	for d.at < len(d.in) {
		switch c := d.in[d.at]; c {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return c
		}
	}
	return 0
}

func (d *jsonDecoder) unexpected(want string) error {
	if d.at >= len(d.in) {
		return malformed("JSON ends where %s should be", want)
	}
	return malformed("JSON has %q at byte %d, where %s should be", d.in[d.at], d.at, want)
}

// open begins a document: it reserves the bytes of its length.
func (d *jsonDecoder) open() int {
	d.out = append(d.out, 0, 0, 0, 0)
	return len(d.out) - 4
}

// close ends the document that open began at start.
func (d *jsonDecoder) close(start int) error {
	d.out = append(d.out, 0)
	size := len(d.out) - start
	if size > math.MaxInt32 {
		return malformed("document would have %d bytes, more than a BSON document can have", size)
	}
	binary.LittleEndian.PutUint32(d.out[start:], uint32(size))
	return nil
}

// object reads an object; the next byte is its brace.
func (d *jsonDecoder) object(depth int) error {
	if depth > maxDepth {
		return malformed("JSON has more than %d levels", maxDepth)
	}
	d.at++
	start := d.open()
	if d.next() == '}' {
		d.at++
		return d.close(start)
	}
	for {
		if d.next() != '"' {
			return d.unexpected("a key")
		}
		name, err := d.string()
		if err != nil {
			return err
		}
		typeAt := len(d.out)
		d.out = append(d.out, 0)
		if d.out, err = appendName(d.out, name); err != nil {
			return err
		}
		if d.next() != ':' {
			return d.unexpected("a colon")
		}
		d.at++
		if err := d.value(typeAt, depth); err != nil {
			return err
		}
		switch d.next() {
		case ',':
			d.at++
		case '}':
			d.at++
			return d.close(start)
		default:
			return d.unexpected("a comma or a closing brace")
		}
	}
}

func appendName(dst, name []byte) ([]byte, error) {
	if slices.Contains(name, 0) {
		return dst, malformed("key %s holds NUL", quoted(name))
	}
	return append(append(dst, name...), 0), nil
}

// array reads an array; the next byte is its bracket.
func (d *jsonDecoder) array(depth int) error {
	if depth > maxDepth {
		return malformed("JSON has more than %d levels", maxDepth)
	}
	d.at++
	start := d.open()
	if d.next() == ']' {
		d.at++
		return d.close(start)
	}
	for i := int64(0); ; i++ {
		typeAt := len(d.out)
		d.out = append(d.out, 0)
		d.out = append(strconv.AppendInt(d.out, i, 10), 0)
		if err := d.value(typeAt, depth); err != nil {
			return err
		}
		switch d.next() {
		case ',':
			d.at++
		case ']':
			d.at++
			return d.close(start)
		default:
			return d.unexpected("a comma or a closing bracket")
		}
	}
}

// value reads a value with at most depth levels, appends it, and sets its type at
// out[typeAt].
func (d *jsonDecoder) value(typeAt, depth int) error {
	var t bson.Type
	var err error
	switch c := d.next(); c {
	case '"':
		t = bson.TypeString
		var s []byte
		if s, err = d.string(); err == nil {
			d.appendString(s)
		}
	case '{':
		if key := d.wrapperKey(); key != "" {
			t, err = d.wrapper(key, depth)
		} else {
			t = bson.TypeEmbeddedDocument
			err = d.object(depth + 1)
		}
	case '[':
		t = bson.TypeArray
		err = d.array(depth + 1)
	case 't':
		t = bson.TypeBoolean
		d.out = append(d.out, 1)
		err = d.literal("true")
	case 'f':
		t = bson.TypeBoolean
		d.out = append(d.out, 0)
		err = d.literal("false")
	case 'n':
		t = bson.TypeNull
		err = d.literal("null")
	default:
		if c != '-' && (c < '0' || c > '9') {
			return d.unexpected("a value")
		}
		t, err = d.number()
	}
	d.out[typeAt] = byte(t)
	return err
}

func (d *jsonDecoder) appendString(s []byte) {
	d.out = binary.LittleEndian.AppendUint32(d.out, uint32(len(s)+1))
	d.out = append(append(d.out, s...), 0)
}

func (d *jsonDecoder) literal(word string) error {
	if len(d.in)-d.at < len(word) || string(d.in[d.at:d.at+len(word)]) != word {
		return d.unexpected("true, false or null")
	}
	d.at += len(word)
	return nil
}

// number reads a number: an int64 if it has neither fraction nor exponent and fits,
// otherwise a double.
func (d *jsonDecoder) number() (bson.Type, error) {
	start := d.at
	negative := d.in[d.at] == '-'
	if negative {
		d.at++
	}
	first := d.at
	whole := d.digits()
	if whole == 0 || (whole > 1 && d.in[first] == '0') {
		d.at = first
		return 0, d.unexpected("a number")
	}
	integral := true
	if d.at < len(d.in) && d.in[d.at] == '.' {
		integral = false
		d.at++
		if d.digits() == 0 {
			return 0, d.unexpected("a digit")
		}
	}
	if d.at < len(d.in) && (d.in[d.at] == 'e' || d.in[d.at] == 'E') {
		integral = false
		d.at++
		if d.at < len(d.in) && (d.in[d.at] == '+' || d.in[d.at] == '-') {
			d.at++
		}
		if d.digits() == 0 {
			return 0, d.unexpected("a digit")
		}
	}
	text := d.in[start:d.at]
	if integral {
		if n, ok := parseInt(text[d.at-start-whole:], negative); ok {
			d.out = binary.LittleEndian.AppendUint64(d.out, uint64(n))
			return bson.TypeInt64, nil
		}
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return 0, malformed("JSON number at byte %d is beyond a double", start)
	}
	d.out = binary.LittleEndian.AppendUint64(d.out, math.Float64bits(f))
	return bson.TypeDouble, nil
}

// digits skips digits and counts them.
func (d *jsonDecoder) digits() int {
	start := d.at
	for d.at < len(d.in) && d.in[d.at] >= '0' && d.in[d.at] <= '9' {
		d.at++
	}
	return d.at - start
}

// parseInt parses decimal digits; ok is false if the number exceeds an int64.
func parseInt(digits []byte, negative bool) (int64, bool) {
	const limit = 19 // digits of 2^63-1
	if len(digits) > limit {
		return 0, false
	}
	var n uint64
	for _, c := range digits {
		n = n*10 + uint64(c-'0')
	}
	if negative {
		return -int64(n), n <= 1<<63
	}
	return int64(n), n < 1<<63
}

// string reads a string; the next byte is its quote. The result is valid until the next
// call.
func (d *jsonDecoder) string() ([]byte, error) {
	d.at++
	start, ascii := d.at, true
	for d.at < len(d.in) {
		c := d.in[d.at]
		switch {
		case c == '"':
			s := d.in[start:d.at]
			if !ascii && !utf8.Valid(s) {
				return nil, malformed("JSON string at byte %d is not valid UTF-8", start)
			}
			d.at++
			return s, nil
		case c == '\\':
			return d.escapedString(start)
		case c < ' ':
			return nil, d.unexpected("an escaped control character")
		case c >= utf8.RuneSelf:
			ascii = false
		}
		d.at++
	}
	return nil, d.unexpected("the end of a string")
}

// escapedString reads the rest of a string that began at start; the next byte is a
// backslash.
func (d *jsonDecoder) escapedString(start int) ([]byte, error) {
	d.text = append(d.text[:0], d.in[start:d.at]...)
	for d.at < len(d.in) {
		c := d.in[d.at]
		switch {
		case c == '"':
			if !utf8.Valid(d.text) {
				return nil, malformed("JSON string at byte %d is not valid UTF-8", start)
			}
			d.at++
			return d.text, nil
		case c == '\\':
			d.at++
			if err := d.escape(); err != nil {
				return nil, err
			}
			continue
		case c < ' ':
			return nil, d.unexpected("an escaped control character")
		}
		d.text = append(d.text, c)
		d.at++
	}
	return nil, d.unexpected("the end of a string")
}

// escape reads an escape sequence after its backslash.
func (d *jsonDecoder) escape() error {
	if d.at >= len(d.in) {
		return d.unexpected("an escape")
	}
	c := d.in[d.at]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return d.unicodeEscape()
	default:
		return d.unexpected("an escape")
	}
	d.text = append(d.text, c)
	d.at++
	return nil
}

// unicodeEscape reads the u and four hex digits after a backslash, and the second half of a
// surrogate pair if one follows. Half a pair alone becomes U+FFFD.
func (d *jsonDecoder) unicodeEscape() error {
	r, ok := hex4(d.in[d.at:])
	if !ok {
		return d.unexpected("four hex digits")
	}
	d.at += 5
	if utf16.IsSurrogate(r) {
		first := r
		r = utf8.RuneError
		if d.at < len(d.in) && d.in[d.at] == '\\' {
			if second, ok := hex4(d.in[d.at+1:]); ok {
				if pair := utf16.DecodeRune(first, second); pair != utf8.RuneError {
					r = pair
					d.at += 6
				}
			}
		}
	}
	d.text = utf8.AppendRune(d.text, r)
	return nil
}

// hex4 reads "uXXXX".
func hex4(b []byte) (rune, bool) {
	if len(b) < 5 || b[0] != 'u' {
		return 0, false
	}
	var r [2]byte
	if _, err := hex.Decode(r[:], b[1:5]); err != nil {
		return 0, false
	}
	return rune(binary.BigEndian.Uint16(r[:])), true
}
