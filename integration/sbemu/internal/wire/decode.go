package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// Errors of malformed input. [Decoder.Err] returns them, possibly wrapped with details.
var (
	ErrTruncated = errors.New("value ends early")
	ErrType      = errors.New("unexpected type")
	ErrDepth     = errors.New("nested too deeply")
	ErrUTF8      = errors.New("string is not UTF-8")
	ErrSize      = errors.New("size and count of a list, map or array disagree")
)

// Decoder reads consecutive values from bytes. It fails at the first malformed value.
// After that it returns zero values, and [Decoder.Err] returns the reason. Returned
// slices share the memory of the input.
type Decoder struct {
	buf   []byte
	err   error
	depth int
}

// NewDecoder returns a decoder of b.
func NewDecoder(b []byte) Decoder { return Decoder{buf: b} }

// Err returns the error that made the decoder fail, or nil.
func (d *Decoder) Err() error { return d.err }

// Len returns how many bytes are left.
func (d *Decoder) Len() int { return len(d.buf) }

// Rest returns the bytes that are left.
func (d *Decoder) Rest() []byte { return d.buf }

// Fail makes the decoder fail with err, unless it has failed already.
func (d *Decoder) Fail(err error) { d.fail(err) }

func (d *Decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}

	d.buf = nil
}

func (d *Decoder) take(n int) []byte {
	if n < 0 || n > len(d.buf) {
		d.fail(ErrTruncated)

		return nil
	}

	b := d.buf[:n:n]
	d.buf = d.buf[n:]

	return b
}

func (d *Decoder) byte() byte {
	if len(d.buf) == 0 {
		d.fail(ErrTruncated)

		return 0
	}

	b := d.buf[0]
	d.buf = d.buf[1:]

	return b
}

func (d *Decoder) u16() uint16 {
	if b := d.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}

	return 0
}

func (d *Decoder) u32() uint32 {
	if b := d.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}

	return 0
}

func (d *Decoder) u64() uint64 {
	if b := d.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}

	return 0
}

// Null consumes a null if one is next, and reports whether it did.
func (d *Decoder) Null() bool {
	if len(d.buf) > 0 && d.buf[0] == codeNull {
		d.buf = d.buf[1:]

		return true
	}

	return false
}

// Compound reports whether a list, a map or an array is next.
func (d *Decoder) Compound() bool {
	if len(d.buf) == 0 {
		return false
	}

	switch d.buf[0] {
	case codeList0, codeList8, codeList32, codeMap8, codeMap32, codeArray8, codeArray32:
		return true
	default:
		return false
	}
}

// BinaryNext reports whether a binary is next.
func (d *Decoder) BinaryNext() bool {
	return len(d.buf) > 0 && (d.buf[0] == codeBin8 || d.buf[0] == codeBin32)
}

func (d *Decoder) mismatch(code byte, want string) {
	if d.err == nil {
		d.fail(fmt.Errorf("%w 0x%02x for %s", ErrType, code, want))
	}
}

// Bool reads a boolean, and returns def for a null.
func (d *Decoder) Bool(def bool) bool {
	if d.Null() {
		return def
	}

	switch code := d.byte(); code {
	case codeTrue:
		return true
	case codeFalse:
		return false
	case codeBool:
		switch d.byte() {
		case 0:
			return false
		case 1:
			return true
		default:
			d.mismatch(code, "boolean")
		}
	default:
		d.mismatch(code, "boolean")
	}

	return def
}

// Ubyte reads a ubyte, and returns def for a null.
func (d *Decoder) Ubyte(def uint8) uint8 {
	if d.Null() {
		return def
	}

	code := d.byte()
	if code != codeUbyte {
		d.mismatch(code, "ubyte")

		return def
	}

	return d.byte()
}

// Ushort reads a ushort, and returns def for a null.
func (d *Decoder) Ushort(def uint16) uint16 {
	if d.Null() {
		return def
	}

	code := d.byte()
	if code != codeUshort {
		d.mismatch(code, "ushort")

		return def
	}

	return d.u16()
}

// Uint reads a uint, and returns def for a null.
func (d *Decoder) Uint(def uint32) uint32 {
	v, ok := d.OptionalUint()
	if !ok {
		return def
	}

	return v
}

// OptionalUint reads a uint. For a null it returns false.
func (d *Decoder) OptionalUint() (uint32, bool) {
	if d.Null() {
		return 0, false
	}

	switch code := d.byte(); code {
	case codeUint0:
		return 0, true
	case codeSmallUint:
		return uint32(d.byte()), true
	case codeUint:
		return d.u32(), true
	default:
		d.mismatch(code, "uint")

		return 0, false
	}
}

// Ulong reads a ulong, and returns def for a null.
func (d *Decoder) Ulong(def uint64) uint64 {
	if d.Null() {
		return def
	}

	switch code := d.byte(); code {
	case codeUlong0:
		return 0
	case codeSmallUlong:
		return uint64(d.byte())
	case codeUlong:
		return d.u64()
	default:
		d.mismatch(code, "ulong")

		return def
	}
}

// Binary reads a binary without copying it, and returns nil for a null.
func (d *Decoder) Binary() []byte {
	if d.Null() {
		return nil
	}

	switch code := d.byte(); code {
	case codeBin8:
		return d.take(int(d.byte()))
	case codeBin32:
		return d.take(d.size())
	default:
		d.mismatch(code, "binary")

		return nil
	}
}

// Text reads a string or a symbol, and returns "" for a null.
func (d *Decoder) Text() string {
	s, _ := d.OptionalText()

	return s
}

// OptionalText reads a string or a symbol. For a null it returns false.
func (d *Decoder) OptionalText() (string, bool) {
	if d.Null() {
		return "", false
	}

	b := d.textBytes()

	return string(b), d.err == nil
}

// textBytes reads a string or symbol without copying it.
func (d *Decoder) textBytes() []byte {
	var b []byte

	switch code := d.byte(); code {
	case codeStr8, codeSym8:
		b = d.take(int(d.byte()))
	case codeStr32, codeSym32:
		b = d.take(d.size())
	default:
		d.mismatch(code, "string")

		return nil
	}

	if !utf8.Valid(b) {
		d.fail(ErrUTF8)

		return nil
	}

	return b
}

// size reads a 32-bit size. The decoder fails if the size exceeds the remaining bytes.
func (d *Decoder) size() int {
	n := d.u32()
	if uint64(n) > uint64(len(d.buf)) {
		d.fail(ErrTruncated)

		return 0
	}

	return int(n)
}

// enter counts a level of nesting. It returns false, and the decoder fails, if the depth
// exceeds [MaxDepth].
func (d *Decoder) enter() bool {
	d.depth++
	if d.depth > MaxDepth {
		d.fail(ErrDepth)

		return false
	}

	return true
}

func (d *Decoder) leave() { d.depth-- }

// compound reads the size and count of a list, map or array whose
// constructor was consumed, and returns a decoder of its content.
func (d *Decoder) compound(wide bool) (Decoder, int) {
	var size, count int

	if wide {
		size = d.size()
	} else {
		size = int(d.byte())
	}

	in := Decoder{buf: d.take(size), depth: d.depth}

	if wide {
		n := in.u32()
		if n > math.MaxInt32 {
			in.fail(ErrTruncated)
		}

		count = int(n)
	} else {
		count = int(in.byte())
	}

	if in.err != nil {
		d.fail(in.err)

		return Decoder{err: d.err}, 0
	}

	return in, count
}

// List reads the head of a list and returns a decoder of its fields. A null counts as an
// empty list.
func (d *Decoder) List() Fields {
	if d.Null() {
		return Fields{}
	}

	switch code := d.byte(); code {
	case codeList0:
		return Fields{}
	case codeList8, codeList32:
		in, n := d.compound(code == codeList32)
		if n > in.Len() {
			d.fail(ErrTruncated)

			return Fields{}
		}

		return Fields{Decoder: in, left: n}
	default:
		d.mismatch(code, "list")

		return Fields{}
	}
}

// MapBody reads a map's head. It returns the encoded entries and the number of keys plus
// values, which is always even. A null counts as an empty map.
func (d *Decoder) MapBody() ([]byte, int) {
	if d.Null() {
		return nil, 0
	}

	code := d.byte()
	if code != codeMap8 && code != codeMap32 {
		d.mismatch(code, "map")

		return nil, 0
	}

	in, n := d.compound(code == codeMap32)
	if n%2 != 0 || n > in.Len() {
		d.fail(ErrTruncated)

		return nil, 0
	}

	return in.buf, n
}

// Descriptor reads the descriptor of a described value. It must be a ulong that fits a
// byte, as all descriptors of AMQP itself do.
func (d *Decoder) Descriptor() byte {
	if code := d.byte(); code != codeDescribed {
		d.mismatch(code, "described value")

		return 0
	}

	n := d.Ulong(0)
	if n > math.MaxUint8 {
		d.fail(fmt.Errorf("%w: unknown descriptor 0x%x", ErrType, n))

		return 0
	}

	return byte(n)
}

// Fields are the fields of a composite value. Absent fields read as null.
type Fields struct {
	Decoder

	left int
}

var encodedNull = []byte{codeNull}

// Next returns the decoder of the next field. A field that the peer left out, or past the
// last field, is a null.
func (f *Fields) Next() *Decoder {
	if f.left > 0 {
		f.left--

		return &f.Decoder
	}

	f.Done()

	if f.err == nil {
		f.buf = encodedNull
	}

	return &f.Decoder
}

// Done makes the decoder fail if unread fields or bytes are left.
func (f *Fields) Done() {
	if f.left > 0 || len(f.buf) > 0 {
		f.fail(ErrSize)
	}
}

// Left returns how many fields are left.
func (f *Fields) Left() int { return f.left }
