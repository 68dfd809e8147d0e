package query

import (
	"math"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// rule checks one JSON schema keyword on a value that is present.
type rule func(v bsonraw.Value) bool

// schema is a $jsonSchema. A value must satisfy all its rules.
type schema []rule

func (s schema) holds(v bsonraw.Value) bool {
	for _, r := range s {
		if !r(v) {
			return false
		}
	}
	return true
}

func (s schema) match(doc []byte, _ *state) bool { return s.holds(bsonraw.DocumentValue(doc)) }

func compileSchema(v bsonraw.Value) (schema, error) {
	if v.Type != bsoncore.TypeEmbeddedDocument {
		return nil, mongoerr.New(mongoerr.TypeMismatch, "$jsonSchema must be an object")
	}
	var s schema
	for it := bsonraw.NewIter(v.Data); it.Next(); {
		r, err := compileKeyword(string(it.Key()), it.Value(), v.Data)
		if err != nil {
			return nil, err
		}
		if r != nil {
			s = append(s, r)
		}
	}
	return s, nil
}

// compileKeyword compiles one keyword. siblings is the schema that contains the keyword.
// It returns a nil rule if the keyword allows everything or if another keyword handles
// it.
func compileKeyword(key string, v bsonraw.Value, siblings []byte) (rule, error) {
	switch key {
	case "title", "description":
		if v.Type != bsoncore.TypeString {
			return nil, schemaType(key, "a string")
		}
		return nil, nil
	case "bsonType", "type":
		return schemaTypes(key, v)
	case "enum":
		return schemaEnum(v)
	case "allOf", "anyOf", "oneOf", "not":
		return schemaLogic(key, v)
	case "required", "properties", "patternProperties", "additionalProperties", "minProperties", "maxProperties", "dependencies":
		return schemaObject(key, v, siblings)
	case "items", "additionalItems", "minItems", "maxItems", "uniqueItems":
		return schemaArray(key, v, siblings)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		return schemaNumber(key, v, siblings)
	case "minLength", "maxLength":
		n, err := schemaCount(key, v)
		return onType(bsoncore.TypeString, func(v bsonraw.Value) bool {
			length := int64(utf8.RuneCount(bsonraw.Text(v)))
			return key == "minLength" && length >= n || key == "maxLength" && length <= n
		}), err
	case "pattern":
		if v.Type != bsoncore.TypeString {
			return nil, schemaType(key, "a string")
		}
		r, err := newRegex(string(bsonraw.Text(v)), "")
		if err != nil {
			return nil, err
		}
		return onType(bsoncore.TypeString, r.holds), nil
	case "encrypt", "encryptMetadata":
		return nil, mongoerr.Lacking("the $jsonSchema keyword %q", key)
	case "$ref", "$schema", "default", "definitions", "format", "id":
		return nil, mongoerr.New(mongoerr.FailedToParse, "$jsonSchema keyword '%s' is not currently supported", key)
	}
	return nil, mongoerr.New(mongoerr.FailedToParse, "Unknown $jsonSchema keyword: %s", key)
}

// onType restricts a rule to values of one type. Values of other types satisfy it.
func onType(t bsoncore.Type, r rule) rule {
	return func(v bsonraw.Value) bool { return v.Type != t || r(v) }
}

func schemaType(key, want string) error {
	return mongoerr.New(mongoerr.TypeMismatch, "$jsonSchema keyword '%s' must be %s", key, want)
}

func schemaCount(key string, v bsonraw.Value) (int64, error) {
	n, ok := bsonraw.Int64(v)
	if !ok || !bsonraw.IsNumber(v) || n < 0 {
		return 0, mongoerr.New(mongoerr.FailedToParse, "$jsonSchema keyword '%s' must be a non-negative integer: %s", key, bsonraw.Format(v))
	}
	return n, nil
}

// jsonTypes maps the type names of the keyword "type", which only knows JSON types.
var jsonTypes = map[string]string{
	"string": "string", "object": "object", "array": "array", "boolean": "bool", "null": "null", "number": "number",
}

func schemaTypes(key string, v bsonraw.Value) (rule, error) {
	names := []bsonraw.Value{v}
	if v.Type == bsoncore.TypeArray {
		names = bsonraw.Elements(v.Data)
	}
	if len(names) == 0 {
		return nil, mongoerr.New(mongoerr.FailedToParse, "$jsonSchema keyword '%s' must name at least one type", key)
	}
	translated := bsonraw.NewBuilder(64).StartArray("types")
	for i, n := range names {
		if n.Type != bsoncore.TypeString {
			return nil, schemaType(key, "a string or an array of strings")
		}
		name := string(bsonraw.Text(n))
		if key == "type" {
			known, ok := jsonTypes[name]
			switch {
			case name == "integer":
				return nil, mongoerr.New(mongoerr.FailedToParse, "$jsonSchema type 'integer' is not currently supported.")
			case !ok:
				return nil, mongoerr.New(mongoerr.BadValue, "Unknown type name alias: %s", name)
			}
			name = known
		}
		translated.String(bsonraw.Index(i), name)
	}
	types, _ := bsonraw.Lookup(translated.End().Bytes(), "types")
	n, err := compileType(Path{elementKey}, types)
	if err != nil {
		return nil, err
	}
	return n.(*leaf).test, nil
}

func schemaEnum(v bsonraw.Value) (rule, error) {
	if v.Type != bsoncore.TypeArray {
		return nil, schemaType("enum", "an array")
	}
	allowed := bsonraw.Elements(v.Data)
	if len(allowed) == 0 {
		return nil, mongoerr.New(mongoerr.FailedToParse, "$jsonSchema keyword 'enum' cannot be an empty array")
	}
	return func(v bsonraw.Value) bool {
		for _, a := range allowed {
			if bsonraw.Equal(a, v) {
				return true
			}
		}
		return false
	}, nil
}

func schemaLogic(key string, v bsonraw.Value) (rule, error) {
	if key == "not" {
		s, err := compileSchema(v)
		return func(v bsonraw.Value) bool { return !s.holds(v) }, err
	}
	schemas, err := schemaList(key, v)
	if err != nil {
		return nil, err
	}
	return func(v bsonraw.Value) bool {
		n := 0
		for _, s := range schemas {
			if s.holds(v) {
				n++
			}
		}
		switch key {
		case "allOf":
			return n == len(schemas)
		case "anyOf":
			return n > 0
		}
		return n == 1
	}, nil
}

func schemaList(key string, v bsonraw.Value) ([]schema, error) {
	if v.Type != bsoncore.TypeArray || bsonraw.Empty(v.Data) {
		return nil, schemaType(key, "a non-empty array")
	}
	var schemas []schema
	for _, e := range bsonraw.Elements(v.Data) {
		s, err := compileSchema(e)
		if err != nil {
			return nil, err
		}
		schemas = append(schemas, s)
	}
	return schemas, nil
}

func schemaNumber(key string, v bsonraw.Value, siblings []byte) (rule, error) {
	exclusive := func(name, bound string) (bool, error) {
		e, ok := bsonraw.Lookup(siblings, name)
		if ok && e.Type != bsoncore.TypeBoolean {
			return false, schemaType(name, "a boolean")
		}
		if _, bounded := bsonraw.Lookup(siblings, bound); ok && !bounded {
			return false, mongoerr.New(mongoerr.FailedToParse, "$jsonSchema keyword '%s' must be a present if %s is present", bound, name)
		}
		return ok && bsonraw.Truthy(e), nil
	}
	switch key {
	case "exclusiveMinimum":
		_, err := exclusive(key, "minimum")
		return nil, err
	case "exclusiveMaximum":
		_, err := exclusive(key, "maximum")
		return nil, err
	}
	if !bsonraw.IsNumber(v) {
		return nil, schemaType(key, "a number")
	}
	var r rule
	switch key {
	case "minimum":
		strict, err := exclusive("exclusiveMinimum", key)
		if err != nil {
			return nil, err
		}
		op := map[bool]Op{true: GT, false: GTE}[strict]
		r = func(n bsonraw.Value) bool { return compareHolds(n, op, v) }
	case "maximum":
		strict, err := exclusive("exclusiveMaximum", key)
		if err != nil {
			return nil, err
		}
		op := map[bool]Op{true: LT, false: LTE}[strict]
		r = func(n bsonraw.Value) bool { return compareHolds(n, op, v) }
	default:
		divisor := bsonraw.Float64(v)
		if divisor <= 0 {
			return nil, mongoerr.New(mongoerr.FailedToParse, "$jsonSchema keyword 'multipleOf' must have a positive value")
		}
		r = func(n bsonraw.Value) bool { return math.Mod(bsonraw.Float64(n), divisor) == 0 }
	}
	return func(v bsonraw.Value) bool { return !bsonraw.IsNumber(v) || r(v) }, nil
}
