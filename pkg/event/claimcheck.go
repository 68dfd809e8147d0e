package event

import (
	"encoding/binary"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// maxClaimValue bounds the values that a claim check keeps: the longest key of the
// contract, plus the length and the NUL of a BSON string.
const maxClaimValue = MaxKeyBytes + 5

// maxClaim bounds the document of a claim check. A topic of the premium tier accepts
// messages of this size by default.
const maxClaim = 1 << 20

// claim copies doc without the fields that hold payload and metadata and without every
// value that is too long to be a key. If more than maxClaim is left, claim fails with
// [ReasonTooLarge].
func claim(doc bson.Raw, payload, metadata bson.RawValue) (bson.Raw, error) {
	var large [2]string
	err := eachElement(doc, func(name []byte, v bson.RawValue, _ []byte) {
		switch {
		case same(v, payload):
			large[0] = string(name)
		case same(v, metadata):
			large[1] = string(name)
		}
	})
	if err != nil {
		return nil, err
	}
	out := make([]byte, 4, 256)
	left := 0
	err = eachElement(doc, func(name []byte, v bson.RawValue, element []byte) {
		if len(v.Value) > maxClaimValue || isAny(name, large) {
			return
		}
		if left += len(element); left <= maxClaim {
			out = append(out, element...)
		}
	})
	switch {
	case err != nil:
		return nil, err
	case left > maxClaim:
		return nil, &ContractError{Reason: ReasonTooLarge, Detail: fmt.Sprintf(
			"%d bytes are in fields that a claim check keeps, at most %d are allowed: keep large data in the payload", left, maxClaim)}
	}
	out = append(out, 0)
	binary.LittleEndian.PutUint32(out, uint32(len(out)))
	return out, nil
}

// eachElement calls yield with the name, the value and all bytes of each top-level
// element.
func eachElement(doc bson.Raw, yield func(name []byte, v bson.RawValue, element []byte)) error {
	rest, err := elements(doc)
	for err == nil && len(rest) > 0 {
		element := rest
		var name []byte
		var v bson.RawValue
		if name, v, rest, err = nextElement(rest); err == nil {
			yield(name, v, element[:len(element)-len(rest)])
		}
	}
	return err
}

// same reports whether v and w are the same bytes of one document. Equal bytes elsewhere
// are not the same.
func same(v, w bson.RawValue) bool {
	return v.Type == w.Type && len(v.Value) > 0 && len(v.Value) == len(w.Value) && &v.Value[0] == &w.Value[0]
}

// isAny reports whether name is one of names that are not empty.
func isAny(name []byte, names [2]string) bool {
	for _, n := range names {
		if n != "" && string(name) == n {
			return true
		}
	}
	return false
}
