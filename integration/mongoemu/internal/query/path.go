package query

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
)

// Path is a dotted field path, split into names.
type Path []string

// ParsePath splits a dotted path into names.
func ParsePath(dotted string) Path { return strings.Split(dotted, ".") }

// String returns the dotted form.
func (p Path) String() string { return strings.Join(p, ".") }

// elementKey is the only field name of the document that wraps an array element. A filter
// on it matches the element alone. If the element is an array, it is not expanded.
const elementKey = "\x01"

// wrap wraps an array element in a document with the field [elementKey].
func wrap(v bsonraw.Value) []byte {
	return bsonraw.NewBuilder(len(v.Data)+8).Value(elementKey, v).Bytes()
}

// Walk calls visit for every value that the path reaches in doc, as MongoDB's matcher
// does. It visits each embedded document in an array. A number is an array position as
// well as a field name. A path that does not exist reaches one absent value. With expand,
// an array at the end of the path yields its elements and then itself. Walk stops and
// returns true as soon as visit returns true.
func (p Path) Walk(doc []byte, expand bool, visit func(bsonraw.Value) bool) bool {
	v, ok := bsonraw.Lookup(doc, p[0])
	if p[0] == elementKey {
		return visit(v)
	}
	for {
		if !ok {
			return visit(bsonraw.Missing)
		}
		last := len(p) == 1
		switch {
		case v.Type == bsoncore.TypeArray && !last:
			return p[1:].walkArray(v.Data, expand, visit)
		case v.Type == bsoncore.TypeArray && expand:
			for it := bsonraw.NewIter(v.Data); it.Next(); {
				if visit(it.Value()) {
					return true
				}
			}
			return visit(v)
		case last:
			return visit(v)
		case v.Type != bsoncore.TypeEmbeddedDocument:
			return visit(bsonraw.Missing)
		}
		p = p[1:]
		v, ok = bsonraw.Lookup(v.Data, p[0])
	}
}

func (p Path) walkArray(arr []byte, expand bool, visit func(bsonraw.Value) bool) bool {
	for it := bsonraw.NewIter(arr); it.Next(); {
		v := it.Value()
		if v.Type == bsoncore.TypeEmbeddedDocument && p.Walk(v.Data, expand, visit) {
			return true
		}
		if string(it.Key()) != p[0] {
			continue
		}
		switch {
		case len(p) == 1:
			if visit(v) {
				return true
			}
		case v.Type == bsoncore.TypeArray, v.Type == bsoncore.TypeEmbeddedDocument:
			if p[1:].Walk(v.Data, expand, visit) {
				return true
			}
		}
	}
	return false
}
