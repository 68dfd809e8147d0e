package wire

import (
	"encoding/binary"
	"math"
)

// AppendLongs appends an array of longs.
func AppendLongs(b []byte, vs []int64) []byte {
	b, at := beginArray(b, codeLong)
	for _, v := range vs {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}

	return EndCompound(b, at, len(vs))
}

// AppendTimestamps appends an array of timestamps.
func AppendTimestamps(b []byte, vs []Timestamp) []byte {
	b, at := beginArray(b, codeTimestamp)
	for _, v := range vs {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}

	return EndCompound(b, at, len(vs))
}

// AppendStrings appends an array of strings.
func AppendStrings(b []byte, vs []string) []byte {
	b, at := beginArray(b, codeStr32)
	for _, v := range vs {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
	}

	return EndCompound(b, at, len(vs))
}

// AppendUUIDs appends an array of uuids.
func AppendUUIDs(b []byte, vs []UUID) []byte {
	b, at := beginArray(b, codeUUID)
	for _, v := range vs {
		b = append(b, v[:]...)
	}

	return EndCompound(b, at, len(vs))
}

// beginArray begins an array of elements with the constructor code.
func beginArray(b []byte, code byte) ([]byte, int) {
	return append(b, codeArray32, 0, 0, 0, 0, 0, 0, 0, 0, code), len(b)
}

// Longs returns v as integers if it is an array or a list of them.
func Longs(v any) ([]int64, bool) {
	var out []int64

	ok := elements(v, func(d *Decoder, code byte) {
		switch code {
		case codeLong, codeUlong, codeTimestamp:
			out = append(out, int64(d.u64()))
		case codeSmallLong:
			out = append(out, int64(int8(d.byte())))
		case codeInt:
			out = append(out, int64(int32(d.u32())))
		case codeSmallInt:
			out = append(out, int64(int8(d.byte())))
		default:
			d.mismatch(code, "array of longs")
		}
	})

	return out, ok
}

// UUIDs returns v as uuids if it is an array or a list of them.
func UUIDs(v any) ([]UUID, bool) {
	var out []UUID

	ok := elements(v, func(d *Decoder, code byte) {
		if code != codeUUID {
			d.mismatch(code, "array of uuids")

			return
		}

		var u UUID
		copy(u[:], d.take(16))
		out = append(out, u)
	})

	return out, ok
}

// elements calls see for each element of an array or list.
func elements(v any, see func(d *Decoder, code byte)) bool {
	if list, ok := v.([]any); ok {
		for _, e := range list {
			d := NewDecoder(AppendValue(nil, e))

			if see(&d, d.byte()); d.err != nil {
				return false
			}
		}

		return true
	}

	raw, ok := v.(Raw)
	if !ok {
		return false
	}

	d := NewDecoder(raw)

	code := d.byte()
	if code != codeArray8 && code != codeArray32 {
		return false
	}

	in, n := d.compound(code == codeArray32)
	element := in.byte()

	if width, fixed := fixedWidth(element); !fixed || width == 0 || n > math.MaxInt32/width || n*width > in.Len() {
		return n == 0
	}

	for ; n > 0 && in.err == nil; n-- {
		see(&in, element)
	}

	return in.err == nil
}
