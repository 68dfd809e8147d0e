package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// AppendNull appends a null.
func AppendNull(b []byte) []byte { return append(b, codeNull) }

// AppendBool appends a boolean.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, codeTrue)
	}

	return append(b, codeFalse)
}

// AppendUbyte appends a ubyte.
func AppendUbyte(b []byte, v uint8) []byte { return append(b, codeUbyte, v) }

// AppendUshort appends a ushort.
func AppendUshort(b []byte, v uint16) []byte {
	return binary.BigEndian.AppendUint16(append(b, codeUshort), v)
}

// AppendUint appends a uint in its shortest form.
func AppendUint(b []byte, v uint32) []byte {
	switch {
	case v == 0:
		return append(b, codeUint0)
	case v <= math.MaxUint8:
		return append(b, codeSmallUint, byte(v))
	default:
		return binary.BigEndian.AppendUint32(append(b, codeUint), v)
	}
}

// AppendUlong appends a ulong in its shortest form.
func AppendUlong(b []byte, v uint64) []byte {
	switch {
	case v == 0:
		return append(b, codeUlong0)
	case v <= math.MaxUint8:
		return append(b, codeSmallUlong, byte(v))
	default:
		return binary.BigEndian.AppendUint64(append(b, codeUlong), v)
	}
}

// AppendLong appends a long in its full form.
func AppendLong(b []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(append(b, codeLong), uint64(v))
}

// AppendTimestamp appends a timestamp.
func AppendTimestamp(b []byte, v Timestamp) []byte {
	return binary.BigEndian.AppendUint64(append(b, codeTimestamp), uint64(v))
}

// AppendUUID appends a uuid.
func AppendUUID(b []byte, v UUID) []byte {
	return append(append(b, codeUUID), v[:]...)
}

// AppendBinary appends a binary.
func AppendBinary(b, v []byte) []byte {
	return append(appendSized(b, codeBin8, len(v)), v...)
}

// AppendString appends a string.
func AppendString(b []byte, v string) []byte {
	return append(appendSized(b, codeStr8, len(v)), v...)
}

// AppendSymbol appends a symbol.
func AppendSymbol(b []byte, v Symbol) []byte {
	return append(appendSized(b, codeSym8, len(v)), v...)
}

// appendSized appends a variable-width constructor and the size n. It uses the narrow
// form if n fits a byte.
func appendSized(b []byte, narrow byte, n int) []byte {
	if n <= math.MaxUint8 {
		return append(b, narrow, byte(n))
	}

	return binary.BigEndian.AppendUint32(append(b, narrow|0x10), uint32(n))
}

// AppendDescriptor begins a described value; the value must follow.
func AppendDescriptor(b []byte, code byte) []byte {
	return append(b, codeDescribed, codeSmallUlong, code)
}

// BeginList begins a list. [EndCompound] must end the list.
func BeginList(b []byte) ([]byte, int) {
	return append(b, codeList32, 0, 0, 0, 0, 0, 0, 0, 0), len(b)
}

// BeginMap begins a map. [EndCompound] must end the map; its count is keys plus values.
func BeginMap(b []byte) ([]byte, int) {
	return append(b, codeMap32, 0, 0, 0, 0, 0, 0, 0, 0), len(b)
}

// EndCompound writes the size and count of a list or map begun at start.
func EndCompound(b []byte, start, count int) []byte {
	binary.BigEndian.PutUint32(b[start+1:], uint32(len(b)-start-5))
	binary.BigEndian.PutUint32(b[start+5:], uint32(count))

	return b
}

// AppendMap appends a map.
func AppendMap(b []byte, m Map) []byte {
	b, at := BeginMap(b)
	for _, p := range m {
		b = AppendValue(AppendValue(b, p.Key), p.Value)
	}

	return EndCompound(b, at, 2*len(m))
}

// AppendValue appends a value of any type that [Decoder.Value] returns, and an int as a
// long. It panics for other types, because the caller chooses the values, never a peer.
func AppendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return AppendNull(b)
	case bool:
		return AppendBool(b, v)
	case uint8:
		return AppendUbyte(b, v)
	case uint16:
		return AppendUshort(b, v)
	case uint32:
		return AppendUint(b, v)
	case uint64:
		return AppendUlong(b, v)
	case int8:
		return append(b, codeByte, byte(v))
	case int16:
		return binary.BigEndian.AppendUint16(append(b, codeShort), uint16(v))
	case int32:
		return binary.BigEndian.AppendUint32(append(b, codeInt), uint32(v))
	case int64:
		return AppendLong(b, v)
	case int:
		return AppendLong(b, int64(v))
	case float32:
		return binary.BigEndian.AppendUint32(append(b, codeFloat), math.Float32bits(v))
	case float64:
		return binary.BigEndian.AppendUint64(append(b, codeDouble), math.Float64bits(v))
	case Char:
		return binary.BigEndian.AppendUint32(append(b, codeChar), uint32(v))
	case Timestamp:
		return AppendTimestamp(b, v)
	case UUID:
		return AppendUUID(b, v)
	case []byte:
		return AppendBinary(b, v)
	case string:
		return AppendString(b, v)
	case Symbol:
		return AppendSymbol(b, v)
	case Raw:
		return append(b, v...)
	case Map:
		return AppendMap(b, v)
	case []any:
		b, at := BeginList(b)
		for _, e := range v {
			b = AppendValue(b, e)
		}

		return EndCompound(b, at, len(v))
	case Described:
		return AppendValue(AppendValue(append(b, codeDescribed), v.Descriptor), v.Value)
	default:
		panic(fmt.Sprintf("wire: no AMQP type for %T", v))
	}
}
