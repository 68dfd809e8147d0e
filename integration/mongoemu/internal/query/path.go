package query

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
)

// Path is a dotted field path, split.
type Path []string

// ParsePath splits a dotted path.
func ParsePath(dotted string) Path { return strings.Split(dotted, ".") }

// String is the dotted form.
func (p Path) String() string { return strings.Join(p, ".") }

// elementKey names the only field of the document that an array's element is
// wrapped in to be matched by itself; an array there is not opened.
const elementKey = "\x01"

// wrap makes an array's element a document that a filter on [elementKey] reads.
func wrap(v bsonraw.Value) []byte {
	return bsonraw.NewBuilder(len(v.Data)+8).Value(elementKey, v).Bytes()
}

// Walk calls visit for every value that the path reaches in doc, as MongoDB's
// matcher does: embedded documents inside arrays each count, a number names an
// array's position as well as a field, and a path that ends nowhere reaches
// one absent value. With expand, an array at the path's end yields its elements
// before itself. Walk stops, and returns true, as soon as visit does.
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
