package event

import (
	"fmt"
	"slices"
)

// UUIDRepresentation is the order in which a driver stores the bytes of an older UUID, a binary
// of subtype 3. The binary does not say it. The values are those of the option uuidRepresentation
// of connection strings; the empty one is unknown. See
// https://specifications.readthedocs.io/en/latest/bson-binary-uuid/uuid/
type UUIDRepresentation string

// The orders of older drivers.
const (
	CSharpLegacy UUIDRepresentation = "csharpLegacy"
	JavaLegacy   UUIDRepresentation = "javaLegacy"
	PythonLegacy UUIDRepresentation = "pythonLegacy"
)

// check fails if the value is none of the option's.
func (r UUIDRepresentation) check() error {
	switch r {
	case "", "unspecified", "standard", CSharpLegacy, JavaLegacy, PythonLegacy:
		return nil
	default:
		return fmt.Errorf("uuidRepresentation in the connection string of the event store is %q: use csharpLegacy, javaLegacy or pythonLegacy, as the program that writes the events does", string(r))
	}
}

// Ordered reports whether the order of bytes is known. A client with the option "standard" or
// "unspecified" stores no older UUIDs.
func (r UUIDRepresentation) Ordered() bool {
	return r == CSharpLegacy || r == JavaLegacy || r == PythonLegacy
}

// Reorder turns the bytes of an older UUID into those of subtype 4, and the other way round.
func (r UUIDRepresentation) Reorder(uuid [16]byte) [16]byte {
	var turned [][]byte
	switch r {
	case CSharpLegacy: // .NET keeps the first three groups as little-endian integers
		turned = [][]byte{uuid[:4], uuid[4:6], uuid[6:8]}
	case JavaLegacy: // Java keeps both halves as little-endian integers
		turned = [][]byte{uuid[:8], uuid[8:]}
	}
	for _, group := range turned {
		slices.Reverse(group)
	}
	return uuid
}

const hexDigits = "0123456789abcdef"

// FormatUUID returns the text of a UUID as an aggregate id: the canonical 8-4-4-4-12 form in lower case.
func FormatUUID(uuid [16]byte) string {
	var b [36]byte
	at := 0
	for i, x := range uuid {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			b[at] = '-'
			at++
		}
		b[at], b[at+1] = hexDigits[x>>4], hexDigits[x&15]
		at += 2
	}
	return string(b[:])
}
