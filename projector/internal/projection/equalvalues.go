package projection

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// equalValues reports whether pull and addToSet treat two values as equal: if their type and bytes
// are the same, so that NaN equals itself, or if == holds for them ([sameValue]).
func equalValues(a, b bson.RawValue, m *meter) bool {
	m.spend(fieldWork, 0)
	m.compared(len(a.Value), len(b.Value))
	if fold.SameBytes(a, b) {
		return true
	}
	_, number := fold.NumberOf(a)
	if members := a.Type == bson.TypeEmbeddedDocument || a.Type == bson.TypeArray; !number && (!members || a.Type != b.Type) {
		return false
	}
	return sameValue(celValue(a, m), celValue(b, m), m)
}
