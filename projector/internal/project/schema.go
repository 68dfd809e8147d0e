package project

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/common/types"
	"go.yaml.in/yaml/v3"
)

// maxSchemaDepth bounds how deep a schema nests. An alias in YAML can refer to a
// schema that holds it.
const maxSchemaDepth = 32

// schema is the declared shape of a value: what expressions may ask of it.
type schema struct {
	// name is the path to the value, such as payload.address. It names the type in
	// messages.
	name string
	// celType is what CEL takes the value for.
	celType *types.Type
	// fields are those of a document whose fields are all declared; nil otherwise.
	fields map[string]*schema
	// element is the schema of an array's elements; nil otherwise.
	element *schema
}

// keywords of JSON Schema that describe names and types. The others describe values,
// which no expression could be checked against.
var (
	schemaKeywords = []string{"type", "bsonType", "properties", "items", "required", "additionalProperties"}
	annotations    = []string{"title", "description", "$comment"}
)

// valueTypes are the words of type and bsonType. A number may be of any kind, so it
// is dynamic; so is what CEL has no type for.
var valueTypes = map[string]map[string]*types.Type{
	"type": {
		"string": types.StringType, "integer": types.IntType, "number": types.DynType,
		"boolean": types.BoolType, "object": types.DynType, "array": types.DynType, "null": types.NullType,
	},
	"bsonType": {
		"string": types.StringType, "int": types.IntType, "long": types.IntType, "double": types.DoubleType,
		"decimal": typeDecimal128, "number": types.DynType, "bool": types.BoolType, "date": types.TimestampType,
		"objectId": typeObjectID, "binData": types.DynType, "object": types.DynType, "array": types.DynType,
		"null": types.NullType,
	},
}

// events reads the section that declares the payloads of event types.
func (p place) events(node *yaml.Node) {
	entries, ok := p.entries(node)
	if !ok {
		p.problem(node, "events is a mapping of event types to the JSON Schema of their payload")
		return
	}
	for _, e := range entries {
		at := p.in("events")
		at.eventType = e.key
		if first, taken := p.declared[e.key]; taken {
			at.problem(e.node, "the event type is already declared at %s", first)
			continue
		}
		p.declared[e.key] = fmt.Sprintf("%s:%d", p.file, e.node.Line)
		p.schemas[e.key] = at.schema(e.value, varPayload, 1)
	}
}

// schema reads one schema. What is wrong is reported; the rest is dynamic then.
func (p place) schema(node *yaml.Node, name string, depth int) *schema {
	s := &schema{name: name, celType: types.DynType}
	entries, ok := p.entries(node)
	if !ok {
		p.problem(node, "a schema is a mapping such as {type: string}")
		return s
	}
	if depth > maxSchemaDepth {
		p.problem(node, "the schema nests deeper than %d levels", maxSchemaDepth)
		return s
	}
	var words []string
	keys := map[string]entry{}
	for _, e := range entries {
		keys[e.key] = e
		switch {
		case e.key == "type" || e.key == "bsonType":
			if words != nil {
				p.problem(e.node, "type and bsonType exclude each other")
				continue
			}
			words = p.typeWords(e)
		case !slices.Contains(schemaKeywords, e.key) && !slices.Contains(annotations, e.key):
			p.problem(e.node, "unknown keyword %s: expressions are checked against names and types only, so a schema takes %s", e.key, strings.Join(schemaKeywords, ", "))
		}
	}
	keyword := "type"
	if _, ok := keys["bsonType"]; ok {
		keyword = "bsonType"
	}
	nullable := slices.Contains(words, "null")
	words = slices.DeleteFunc(words, func(w string) bool { return w == "null" })
	if len(words) == 0 && !nullable {
		words = p.impliedType(keys)
	}
	for _, key := range []struct{ keyword, word string }{{"properties", "object"}, {"required", "object"}, {"additionalProperties", "object"}, {"items", "array"}} {
		if e, ok := keys[key.keyword]; ok && !slices.Contains(words, key.word) {
			p.problem(e.node, "%s belongs to type: %s", key.keyword, key.word)
		}
	}
	object, array := p.object(s, keys, depth), p.array(s, keys, depth)
	switch {
	case len(words) != 1:
		// Several types, or any.
	case words[0] == "object":
		s.celType = object
	case words[0] == "array":
		s.celType = array
	default:
		s.celType = valueTypes[keyword][words[0]]
		if nullable {
			s.celType = orNull(s.celType)
		}
	}
	if len(words) != 1 || words[0] != "object" {
		s.fields = nil
	}
	return s
}

// typeWords reads a type or a list of them.
func (p place) typeWords(e entry) []string {
	nodes := []*yaml.Node{e.value}
	if e.value.Kind == yaml.SequenceNode {
		nodes = e.value.Content
	}
	words := []string{}
	for _, n := range nodes {
		n = resolve(n)
		word := n.Value
		if n.Tag == "!!null" {
			word = "null"
		}
		if valueTypes[e.key][word] == nil {
			p.problem(n, "unknown %s %s: use one of %s, or a list of them", e.key, n.Value, strings.Join(sortedKeys(valueTypes[e.key]), ", "))
			continue
		}
		words = append(words, word)
	}
	return words
}

// impliedType is the type of a schema that names none: its keywords may belong to one.
func (place) impliedType(keys map[string]entry) []string {
	if _, ok := keys["properties"]; ok {
		return []string{"object"}
	}
	if _, ok := keys["items"]; ok {
		return []string{"array"}
	}
	return nil
}

// object gives the type of a document. One without properties, or that allows
// others, may have any field.
func (p place) object(s *schema, keys map[string]entry, depth int) *types.Type {
	open := types.NewMapType(types.StringType, types.DynType)
	properties, ok := keys["properties"]
	if !ok {
		return open
	}
	entries, ok := p.entries(properties.value)
	if !ok {
		p.problem(properties.value, "properties is a mapping of fields to their schemas")
		return open
	}
	s.fields = make(map[string]*schema, len(entries))
	for _, e := range entries {
		s.fields[e.key] = p.schema(e.value, s.name+"."+e.key, depth+1)
	}
	if e, ok := keys["required"]; ok {
		p.required(s, e)
	}
	if e, ok := keys["additionalProperties"]; ok {
		switch {
		case e.value.Tag != "!!bool":
			p.problem(e.value, "additionalProperties is true or false")
		case e.value.Value == "true":
			s.fields = nil
			return open
		}
	}
	return types.NewObjectType(s.typeName())
}

// typeName names a document's type for CEL. It is no path of CEL's, so that
// payload.address is a field and not the name of a type.
func (s *schema) typeName() string { return strings.ReplaceAll(s.name, ".", "/") }

// required checks the names in the list; an expression may ask for any field.
func (p place) required(s *schema, e entry) {
	if e.value.Kind != yaml.SequenceNode {
		p.problem(e.value, "required is a list of fields")
		return
	}
	for _, n := range e.value.Content {
		if s.fields[n.Value] == nil {
			p.problem(n, "required names %s, which properties does not have", n.Value)
		}
	}
}

func (p place) array(s *schema, keys map[string]entry, depth int) *types.Type {
	e, ok := keys["items"]
	if !ok {
		return types.NewListType(types.DynType)
	}
	s.element = p.schema(e.value, s.name+"[]", depth+1)
	return types.NewListType(s.element.celType)
}

// orNull is a type whose values may be null. CEL has it for simple types; others are
// dynamic then.
func orNull(t *types.Type) *types.Type {
	switch t {
	case types.StringType, types.IntType, types.DoubleType, types.BoolType:
		return types.NewNullableType(t)
	}
	return types.DynType
}

// collect adds the documents whose fields are declared, by the names of their types.
func (s *schema) collect(documents map[string]*schema) {
	if s == nil {
		return
	}
	if s.fields != nil {
		documents[s.typeName()] = s
	}
	for _, field := range s.fields {
		field.collect(documents)
	}
	s.element.collect(documents)
}

// names lists the fields in order.
func (s *schema) names() []string { return sortedKeys(s.fields) }

// suggestion says which field was probably meant, or which there are.
func (s *schema) suggestion(field string) string {
	best, least := "", len(field)/3+2
	for _, name := range s.names() {
		d := editDistance(strings.ToLower(field), strings.ToLower(name))
		if len(field) >= 4 && strings.HasPrefix(strings.ToLower(name), strings.ToLower(field[:len(field)-1])) {
			d = min(d, least-1)
		}
		if d < least {
			best, least = name, d
		}
	}
	if best != "" {
		return fmt.Sprintf("%s has no field %s: did you mean %s?", s.name, field, best)
	}
	return fmt.Sprintf("%s has no field %s, only %s", s.name, field, strings.Join(s.names(), ", "))
}

// editDistance counts the insertions, deletions and replacements of characters that
// turn a into b.
func editDistance(a, b string) int {
	x, y := []rune(a), []rune(b)
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j := range y {
			replaced := diagonal
			if x[i] != y[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(y)]
}
