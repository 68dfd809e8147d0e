package event

import (
	"encoding/binary"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// without copies doc without the top-level elements that hold these very values.
func without(doc bson.Raw, values ...bson.RawValue) (bson.Raw, error) {
	rest, err := elements(doc)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 4, 256)
	for len(rest) > 0 {
		element := rest
		var v bson.RawValue
		_, v, rest, err = nextElement(rest)
		if err != nil {
			return nil, err
		}
		if !holds(values, v) {
			out = append(out, element[:len(element)-len(rest)]...)
		}
	}
	out = append(out, 0)
	binary.LittleEndian.PutUint32(out, uint32(len(out)))
	return out, nil
}

// holds tells whether v is one of values: the same bytes of the same document,
// not merely equal ones.
func holds(values []bson.RawValue, v bson.RawValue) bool {
	for _, w := range values {
		if v.Type != 0 && v.Type == w.Type && len(v.Value) > 0 && len(v.Value) == len(w.Value) && &v.Value[0] == &w.Value[0] {
			return true
		}
	}
	return false
}
