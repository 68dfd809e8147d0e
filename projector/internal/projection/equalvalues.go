package projection

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// equalValues reports whether pull and addToSet treat two values as equal. Numbers are
// equal by value whatever their type, and NaN equals itself. Documents are equal if they
// have the same fields in any order, because maps from an expression have no order. Arrays
// are equal element by element. All other values are equal if type and value are the same.
func equalValues(a, b bson.RawValue, m *meter) bool {
	m.spend(fieldWork, 0)
	m.compared(len(a.Value), len(b.Value))
	if fold.SameBytes(a, b) {
		return true
	}
	if n, ok := fold.NumberOf(a); ok {
		other, ok := fold.NumberOf(b)
		return ok && m.compareNumbers(n, other) == 0
	}
	if a.Type != b.Type {
		return false
	}
	switch a.Type {
	case bson.TypeEmbeddedDocument:
		return equalDocuments(a.Value, b.Value, m)
	case bson.TypeArray:
		return equalArrays(a.Value, b.Value, m)
	}
	return false
}

func equalDocuments(a, b []byte, m *meter) bool {
	if m.count(a) != m.count(b) {
		return false
	}
	theirs := finder{doc: b, meter: m}
	for name, value := range m.fields(a).all() {
		other, ok := theirs.find(alias(name))
		if !ok || !equalValues(value, other, m) {
			return false
		}
	}
	return true
}

func equalArrays(a, b []byte, m *meter) bool {
	r, s := m.fields(a), m.fields(b)
	for {
		_, v, more := r.next()
		_, w, alsoMore := s.next()
		if !more || !alsoMore {
			return more == alsoMore
		}
		if !equalValues(v, w, m) {
			return false
		}
	}
}
