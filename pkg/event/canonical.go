package event

import (
	"encoding/binary"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// canonicalNaN is the only NaN of canonical documents. BSON has 2^53 of them, JSON has one.
const canonicalNaN = 0x7ff8000000000000

// Canonical gives an event document the form that [DecodeBody] gives it: every integer is
// an int64, and every NaN is the same one, at any depth. Relaxed Extended JSON does not
// distinguish an int32 from a small int64, so without this an event read from the event
// store would differ from the same event received from the topic.
// It gives doc itself if there is nothing to change. It does not change doc's bytes.
// A document that is no valid BSON is a [*ContractError].
func Canonical(doc bson.Raw) (bson.Raw, error) {
	canonical, grows, err := validate(doc, 1)
	if err != nil || canonical {
		return doc, err
	}
	return appendCanonical(make([]byte, 0, len(doc)+grows), doc), nil
}

// isNaN reports whether a double is a NaN, and whether it is the canonical one.
func isNaN(v bson.RawValue) (isNaN, isCanonical bool) {
	bits := binary.LittleEndian.Uint64(v.Value)
	return math.IsNaN(math.Float64frombits(bits)), bits == canonicalNaN
}

// appendCanonical appends the canonical form of a document that validate has
// checked.
func appendCanonical(dst, doc []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for rest := doc[4 : len(doc)-1]; len(rest) > 0; {
		element := rest
		name, v, tail, err := nextElement(rest)
		if err != nil {
			break // validate has found none
		}
		rest = tail
		header := element[:len(name)+2]
		switch v.Type {
		case bson.TypeInt32:
			dst = append(append(dst, byte(bson.TypeInt64)), header[1:]...)
			dst = binary.LittleEndian.AppendUint64(dst, uint64(int32(binary.LittleEndian.Uint32(v.Value))))
		case bson.TypeDouble:
			dst = append(dst, header...)
			if is, _ := isNaN(v); is {
				dst = binary.LittleEndian.AppendUint64(dst, canonicalNaN)
			} else {
				dst = append(dst, v.Value...)
			}
		case bson.TypeEmbeddedDocument, bson.TypeArray:
			dst = appendCanonical(append(dst, header...), v.Value)
		case bson.TypeCodeWithScope:
			dst = appendCanonicalCode(append(dst, header...), v.Value)
		default:
			dst = append(dst, element[:len(element)-len(tail)]...)
		}
	}
	return finish(append(dst, 0), start)
}

// appendCanonicalCode appends code with a scope, which is a document.
func appendCanonicalCode(dst, value []byte) []byte {
	start := len(dst)
	scope := len(value) - int(binary.LittleEndian.Uint32(value[4:])) - 8
	return finish(appendCanonical(append(dst, value[:len(value)-scope]...), value[len(value)-scope:]), start)
}

// finish sets the length of the document that begins at start.
func finish(dst []byte, start int) []byte {
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst
}
