package projection

import (
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
)

// sameProgram reports whether two checked expressions give the same results: they have the
// same structure, and every name and operator resolves to the same candidates. The types
// have no effect when an expression runs.
func sameProgram(a, b *ast.AST) bool {
	return ast.EquivExpr(a.Expr(), b.Expr(), ast.EquivReferences(withoutLate(a.ReferenceMap()), withoutLate(b.ReferenceMap())))
}

// withoutLate returns the references without [lateOverload], so that definitions that are older
// than these overloads keep their text.
func withoutLate(references map[int64]*ast.ReferenceInfo) map[int64]*ast.ReferenceInfo {
	early := make(map[int64]*ast.ReferenceInfo, len(references))
	for id, r := range references {
		early[id] = &ast.ReferenceInfo{Name: r.Name, Value: r.Value, OverloadIDs: slices.DeleteFunc(slices.Clone(r.OverloadIDs), func(overload string) bool {
			return strings.HasPrefix(overload, lateOverload)
		})}
	}
	return early
}

// fieldsUsed are the declared fields that expressions use, by the names of the documents'
// types.
type fieldsUsed map[string]map[string]bool

func (u fieldsUsed) add(other fieldsUsed) {
	for document, fields := range other {
		if u[document] == nil {
			u[document] = map[string]bool{}
		}
		maps.Copy(u[document], fields)
	}
}

func (u fieldsUsed) note(document, field string) { u.add(fieldsUsed{document: {field: true}}) }

// describe returns the schema in canonical form, with the used fields only.
func (s *schema) describe(used fieldsUsed) map[string]any {
	described := map[string]any{}
	switch {
	case s.fields != nil:
		properties := map[string]any{}
		for name := range used[s.typeName()] {
			if field := s.fields[name]; field != nil {
				properties[name] = field.describe(used)
			}
		}
		described["type"], described["properties"] = "object", properties
	case s.celType.Kind() == types.ListKind:
		described["type"] = "array"
		if s.element != nil {
			described["items"] = s.element.describe(used)
		}
	case s.celType.Kind() == types.MapKind:
		described["type"] = "object"
	default:
		keyword, word := wordOf(s.celType)
		switch {
		case word == "":
		case s.celType.IsAssignableType(types.NullType) && word != "null":
			described[keyword] = []string{word, "null"}
		default:
			described[keyword] = word
		}
	}
	return described
}

// wordOf returns the word that a schema has for a simple type; empty for a type that allows
// any value.
func wordOf(t *types.Type) (keyword, word string) {
	for _, simple := range []struct {
		celType       *types.Type
		keyword, word string
	}{
		{types.StringType, "type", "string"}, {types.IntType, "type", "integer"}, {types.BoolType, "type", "boolean"},
		{types.NullType, "type", "null"}, {types.DoubleType, "bsonType", "double"}, {types.TimestampType, "bsonType", "date"},
		{typeDecimal128, "bsonType", "decimal"}, {typeObjectID, "bsonType", "objectId"},
	} {
		if t.IsExactType(simple.celType) || orNull(simple.celType) != types.DynType && t.IsExactType(orNull(simple.celType)) {
			return simple.keyword, simple.word
		}
	}
	return "", ""
}
