package wire

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// Value reads any value. AMQP types that Go has become Go types, and a list becomes
// []any. Arrays and decimals stay [Raw]. The other AMQP types become types of this
// package.
func (d *Decoder) Value() any {
	if !d.enter() {
		return nil
	}
	defer d.leave()

	start := d.buf

	switch code := d.byte(); code {
	case codeDescribed:
		v := Described{Descriptor: d.Value()}
		v.Value = d.Value()

		return v
	case codeNull:
		return nil
	case codeTrue:
		return true
	case codeFalse:
		return false
	case codeBool:
		return d.byte() == 1
	case codeUint0:
		return uint32(0)
	case codeUlong0:
		return uint64(0)
	case codeUbyte:
		return d.byte()
	case codeByte:
		return int8(d.byte())
	case codeSmallUint:
		return uint32(d.byte())
	case codeSmallUlong:
		return uint64(d.byte())
	case codeSmallInt:
		return int32(int8(d.byte()))
	case codeSmallLong:
		return int64(int8(d.byte()))
	case codeUshort:
		return d.u16()
	case codeShort:
		return int16(d.u16())
	case codeUint:
		return d.u32()
	case codeInt:
		return int32(d.u32())
	case codeFloat:
		return math.Float32frombits(d.u32())
	case codeChar:
		return Char(d.u32())
	case codeUlong:
		return d.u64()
	case codeLong:
		return int64(d.u64())
	case codeDouble:
		return math.Float64frombits(d.u64())
	case codeTimestamp:
		return Timestamp(d.u64())
	case codeUUID:
		var u UUID
		copy(u[:], d.take(16))

		return u
	case codeBin8:
		return append([]byte{}, d.take(int(d.byte()))...)
	case codeBin32:
		return append([]byte{}, d.take(d.size())...)
	case codeStr8, codeStr32:
		d.buf = start

		return string(d.textBytes())
	case codeSym8, codeSym32:
		d.buf = start

		return Symbol(d.textBytes())
	case codeList0, codeList8, codeList32:
		d.buf = start

		return d.list()
	case codeMap8, codeMap32:
		d.buf = start

		return d.Map()
	default:
		d.buf = start
		d.depth--
		d.Skip()
		d.depth++

		return append(Raw{}, start[:len(start)-len(d.buf)]...)
	}
}

func (d *Decoder) list() []any {
	f := d.List()
	f.depth = d.depth
	out := make([]any, 0, f.left)

	for f.left > 0 && f.err == nil {
		out = append(out, f.Next().Value())
	}

	f.Done()

	if f.err != nil {
		d.fail(f.err)

		return nil
	}

	return out
}

// Map reads a map. A null counts as an empty map.
func (d *Decoder) Map() Map {
	body, n := d.MapBody()
	in := Decoder{buf: body, depth: d.depth}

	var out Map
	if n > 0 {
		out = make(Map, 0, n/2)
	}

	for ; n > 0 && in.err == nil; n -= 2 {
		out = append(out, Pair{Key: in.Value(), Value: in.Value()})
	}

	in.done()

	if in.err != nil {
		d.fail(in.err)

		return nil
	}

	return out
}

// done makes the decoder of a compound's content fail if bytes are left.
func (d *Decoder) done() {
	if len(d.buf) > 0 {
		d.fail(ErrSize)
	}
}

// Skip skips one value of any type. It checks the whole value: lengths, counts, nesting
// and that strings are UTF-8.
func (d *Decoder) Skip() {
	d.skip(d.byte())
}

// skip skips a value whose constructor was consumed.
func (d *Decoder) skip(code byte) {
	if !d.enter() {
		return
	}
	defer d.leave()

	switch code {
	case codeDescribed:
		d.Skip()
		d.Skip()
	case codeStr8, codeSym8:
		d.text(int(d.byte()))
	case codeStr32, codeSym32:
		d.text(d.size())
	case codeBin8:
		d.take(int(d.byte()))
	case codeBin32:
		d.take(d.size())
	case codeList8, codeList32, codeMap8, codeMap32:
		in, n := d.compound(code&0xf0 == 0xd0)
		if n > in.Len() || code&0x0f == 1 && n%2 != 0 {
			in.fail(ErrTruncated)
		}

		for ; n > 0 && in.err == nil; n-- {
			in.Skip()
		}

		in.done()

		if in.err != nil {
			d.fail(in.err)
		}
	case codeArray8, codeArray32:
		d.skipArray(code == codeArray32)
	default:
		width, ok := fixedWidth(code)
		if !ok {
			d.fail(fmt.Errorf("%w: unknown constructor 0x%02x", ErrType, code))

			return
		}

		d.take(width)
	}
}

func (d *Decoder) text(n int) {
	if !utf8.Valid(d.take(n)) {
		d.fail(ErrUTF8)
	}
}

// skipArray skips an array. Its elements share one constructor. Elements of width zero
// (null, true, an empty list) take no bytes, so the bytes do not bound their count, and
// skipArray does not loop over them.
func (d *Decoder) skipArray(wide bool) {
	in, n := d.compound(wide)
	code := in.byte()

	if code == codeDescribed {
		in.Skip()

		code = in.byte()
	}

	width, fixed := fixedWidth(code)

	switch {
	case fixed && width == 0:
	case fixed && n > in.Len()/width:
		in.fail(ErrTruncated)
	case fixed:
		in.take(n * width)
	default:
		for ; n > 0 && in.err == nil; n-- {
			in.skip(code)
		}
	}

	in.done()

	if in.err != nil {
		d.fail(in.err)
	}
}

// fixedWidth returns the width in bytes of a fixed-width type, and false for other types.
func fixedWidth(code byte) (int, bool) {
	switch code {
	case codeNull, codeTrue, codeFalse, codeUint0, codeUlong0, codeList0:
		return 0, true
	case codeUbyte, codeByte, codeSmallUint, codeSmallUlong, codeSmallInt, codeSmallLong, codeBool:
		return 1, true
	case codeUshort, codeShort:
		return 2, true
	case codeUint, codeInt, codeFloat, codeChar, codeDecimal32:
		return 4, true
	case codeUlong, codeLong, codeDouble, codeTimestamp, codeDecimal64:
		return 8, true
	case codeDecimal128, codeUUID:
		return 16, true
	default:
		return 0, false
	}
}
