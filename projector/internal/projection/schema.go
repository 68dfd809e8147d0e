package projection

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/similar"
	"github.com/penstock-cdc/penstock/pkg/yamlplace"
)

// maxSchemaDepth bounds the nesting of a schema.
const maxSchemaDepth = 32

// schema is the declared shape of a value. Expressions are checked against it.
type schema struct {
	// name is the path to the value, such as payload.address. Messages use it as the
	// type's name.
	name string
	// celType is the value's type in CEL.
	celType *types.Type
	// words are the declared types ([admitted]), sorted; nil for any.
	words []string
	// properties are the declared fields of a document.
	properties map[string]*schema
	// fields are properties, if the document has no others; nil otherwise.
	fields map[string]*schema
	// required are the fields that are always there; nil if the schema does not say.
	required []string
	// element is the schema of an array's elements; nil otherwise.
	element *schema
}

// schemaKeywords are the keywords of JSON Schema that describe names and types. The other
// keywords describe values, and no expression can be checked against values. annotations
// are allowed and ignored.
var (
	schemaKeywords = []string{"type", "bsonType", "properties", "items", "required", "additionalProperties"}
	annotations    = []string{"title", "description", "$comment"}
)

// valueTypes are the CEL types for the words of type and bsonType. A number can be of any
// kind, so its type is dynamic, as for values for which CEL has no type.
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

// events reads the section events, which declares the payloads of event types.
func (p place) events(node *yaml.Node) {
	entries, ok := p.entries(node)
	if !ok {
		p.problem(node, "events is a mapping of event types to the JSON Schema of their payload")
		return
	}
	for _, e := range entries {
		at := p.in("events")
		at.eventType = e.Key
		declared := at.schema(e.Value, varPayload, 1)
		for _, eventType := range p.eventTypes(e.Key) {
			at.eventType = eventType
			if eventType == "" {
				at.problem(e.Node, "an event type is not empty")
				continue
			}
			if first, taken := p.declared[eventType]; taken {
				at.problem(e.Node, "the event type is already declared at %s", first)
				continue
			}
			p.declared[eventType] = fmt.Sprintf("%s:%d", p.file, e.Node.Line)
			p.schemas[eventType] = declared
			at.adviseOnType(e.Node, eventType)
		}
	}
}

// schema reads one schema. It reports problems and gives the parts with a problem a
// dynamic type.
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
	keys := map[string]yamlplace.Entry{}
	for _, e := range entries {
		keys[e.Key] = e
		switch {
		case e.Key == "type" || e.Key == "bsonType":
			if words != nil {
				p.problem(e.Node, "type and bsonType exclude each other")
				continue
			}
			words = p.typeWords(e)
		case !slices.Contains(schemaKeywords, e.Key) && !slices.Contains(annotations, e.Key):
			p.problem(e.Node, "unknown keyword %s%s: expressions are checked against names and types only, so a schema takes %s", e.Key, similar.Meant(e.Key, schemaKeywords), strings.Join(schemaKeywords, ", "))
		}
	}
	keyword := "type"
	if _, ok := keys["bsonType"]; ok {
		keyword = "bsonType"
	}
	nullable := slices.Contains(words, "null")
	words = slices.DeleteFunc(words, func(w string) bool { return w == "null" })
	for i, key := range []struct{ keyword, word string }{{"properties", "object"}, {"items", "array"}, {"required", "object"}, {"additionalProperties", "object"}} {
		e, ok := keys[key.keyword]
		if ok && len(words) == 0 && !nullable && i < 2 {
			words = []string{key.word} // a schema without a type is of that which these keywords need
		}
		if ok && !slices.Contains(words, key.word) {
			p.problem(e.Node, "%s belongs to type: %s", key.keyword, key.word)
		}
	}
	for _, word := range words {
		s.words = append(s.words, admitted(word))
	}
	if nullable {
		s.words = append(s.words, "null")
	}
	slices.Sort(s.words)
	s.words = slices.Compact(s.words)
	object, array := p.object(s, keys, depth), types.NewListType(types.DynType)
	if e, ok := keys["items"]; ok {
		s.element = p.schema(e.Value, s.name+"[]", depth+1)
		array = types.NewListType(s.element.celType)
	}
	switch {
	case len(words) != 1:
		// The value can have several types, or any.
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
func (p place) typeWords(e yamlplace.Entry) []string {
	words := []string{}
	for _, n := range yamlplace.List(e.Value) {
		word := n.Value
		if n.Tag == "!!null" {
			word = "null"
		}
		if valueTypes[e.Key][word] == nil {
			p.problem(n, "unknown %s %s: use one of %s, or a list of them", e.Key, n.Value, strings.Join(sortedKeys(valueTypes[e.Key]), ", "))
			continue
		}
		words = append(words, word)
	}
	return words
}

// object returns the type of a document. A document can have any field if its schema has
// no properties or allows additional ones.
func (p place) object(s *schema, keys map[string]yamlplace.Entry, depth int) *types.Type {
	open := types.NewMapType(types.StringType, types.DynType)
	properties, ok := keys["properties"]
	if !ok {
		return open
	}
	entries, ok := p.entries(properties.Value)
	if !ok {
		p.problem(properties.Value, "properties is a mapping of fields to their schemas")
		return open
	}
	s.fields = make(map[string]*schema, len(entries))
	for _, e := range entries {
		s.fields[e.Key] = p.schema(e.Value, s.name+"."+e.Key, depth+1)
	}
	s.properties = s.fields
	if e, ok := keys["required"]; ok {
		p.required(s, e)
	}
	if e, ok := keys["additionalProperties"]; ok {
		switch {
		case e.Value.Tag != "!!bool":
			p.problem(e.Value, "additionalProperties is true or false")
		case e.Value.Value == "true":
			s.fields = nil
			return open
		}
	}
	return types.NewObjectType(s.typeName())
}

// typeName returns the name of a document's type in CEL. It has slashes instead of dots,
// so that CEL reads payload.address as a field and not as the name of a type.
func (s *schema) typeName() string { return strings.ReplaceAll(s.name, ".", "/") }

// required checks that the listed fields are declared. It does not restrict expressions,
// which can use optional fields too.
func (p place) required(s *schema, e yamlplace.Entry) {
	if e.Value.Kind != yaml.SequenceNode {
		p.problem(e.Value, "required is a list of fields")
		return
	}
	s.required = []string{}
	for _, n := range e.Value.Content {
		s.required = append(s.required, n.Value)
		if s.fields[n.Value] == nil {
			p.problem(n, "required names %s, which properties does not have", n.Value)
		}
	}
}

// orNull returns the nullable variant of a type. CEL has one only for simple types; for
// others the result is dynamic.
func orNull(t *types.Type) *types.Type {
	switch t {
	case types.StringType, types.IntType, types.DoubleType, types.BoolType:
		return types.NewNullableType(t)
	}
	return types.DynType
}

// collect adds the schemas of all documents with declared fields to documents, by type
// name.
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

// suggestion returns a message that names the most similar field, or all fields.
func (s *schema) suggestion(field string) string {
	fields := sortedKeys(s.fields)
	if meant := similar.Suggest(field, fields); meant != "" {
		return fmt.Sprintf("%s has no field %s: did you mean %s?", s.name, field, meant)
	}
	return fmt.Sprintf("%s has no field %s, only %s", s.name, field, strings.Join(fields, ", "))
}
