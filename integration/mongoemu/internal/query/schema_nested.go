package query

import (
	"regexp"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

func schemaObject(key string, v bsonraw.Value, siblings []byte) (rule, error) {
	switch key {
	case "required":
		return schemaRequired(v)
	case "properties":
		properties, err := schemaProperties(key, v)
		return onType(bsoncore.TypeEmbeddedDocument, func(v bsonraw.Value) bool {
			for it := bsonraw.NewIter(v.Data); it.Next(); {
				if s, ok := properties[string(it.Key())]; ok && !s.holds(it.Value()) {
					return false
				}
			}
			return true
		}), err
	case "patternProperties":
		patterns, err := schemaPatterns(v)
		return onType(bsoncore.TypeEmbeddedDocument, func(v bsonraw.Value) bool {
			for it := bsonraw.NewIter(v.Data); it.Next(); {
				for _, p := range patterns {
					if p.name.Match(it.Key()) && !p.schema.holds(it.Value()) {
						return false
					}
				}
			}
			return true
		}), err
	case "additionalProperties":
		return schemaAdditional(v, siblings)
	case "dependencies":
		return schemaDependencies(v)
	}
	n, err := schemaCount(key, v)
	return onType(bsoncore.TypeEmbeddedDocument, func(v bsonraw.Value) bool {
		length := int64(bsonraw.Len(v.Data))
		return key == "minProperties" && length >= n || key == "maxProperties" && length <= n
	}), err
}

func schemaRequired(v bsonraw.Value) (rule, error) {
	if v.Type != bsoncore.TypeArray || bsonraw.Empty(v.Data) {
		return nil, schemaType("required", "a non-empty array")
	}
	var names []string
	seen := map[string]bool{}
	for _, e := range bsonraw.Elements(v.Data) {
		if e.Type != bsoncore.TypeString {
			return nil, schemaType("required", "an array of strings")
		}
		name := string(bsonraw.Text(e))
		if seen[name] {
			return nil, mongoerr.New(mongoerr.FailedToParse, "$jsonSchema keyword 'required' array cannot contain duplicate values")
		}
		seen[name] = true
		names = append(names, name)
	}
	return onType(bsoncore.TypeEmbeddedDocument, func(v bsonraw.Value) bool {
		for _, n := range names {
			if _, ok := bsonraw.Lookup(v.Data, n); !ok {
				return false
			}
		}
		return true
	}), nil
}

func schemaProperties(key string, v bsonraw.Value) (map[string]schema, error) {
	if v.Type != bsoncore.TypeEmbeddedDocument {
		return nil, schemaType(key, "an object")
	}
	properties := map[string]schema{}
	for it := bsonraw.NewIter(v.Data); it.Next(); {
		s, err := compileSchema(it.Value())
		if err != nil {
			return nil, err
		}
		properties[string(it.Key())] = s
	}
	return properties, nil
}

type patternSchema struct {
	name   *regexp.Regexp
	schema schema
}

func schemaPatterns(v bsonraw.Value) ([]patternSchema, error) {
	properties, err := schemaProperties("patternProperties", v)
	if err != nil {
		return nil, err
	}
	var patterns []patternSchema
	for pattern, s := range properties {
		r, err := newRegex(pattern, "")
		if err != nil {
			return nil, err
		}
		patterns = append(patterns, patternSchema{r.re, s})
	}
	return patterns, nil
}

// schemaAdditional compiles additionalProperties, which applies to the fields that
// neither properties nor patternProperties match.
func schemaAdditional(v bsonraw.Value, siblings []byte) (rule, error) {
	properties := map[string]schema{}
	var patterns []patternSchema
	var err error
	if p, ok := bsonraw.Lookup(siblings, "properties"); ok {
		if properties, err = schemaProperties("properties", p); err != nil {
			return nil, err
		}
	}
	if p, ok := bsonraw.Lookup(siblings, "patternProperties"); ok {
		if patterns, err = schemaPatterns(p); err != nil {
			return nil, err
		}
	}
	others, err := allowedOr("additionalProperties", v)
	if err != nil {
		return nil, err
	}
	named := func(key []byte) bool {
		if _, ok := properties[string(key)]; ok {
			return true
		}
		for _, p := range patterns {
			if p.name.Match(key) {
				return true
			}
		}
		return false
	}
	return onType(bsoncore.TypeEmbeddedDocument, func(v bsonraw.Value) bool {
		for it := bsonraw.NewIter(v.Data); it.Next(); {
			if !named(it.Key()) && !others(it.Value()) {
				return false
			}
		}
		return true
	}), nil
}

// allowedOr compiles true, false or a schema.
func allowedOr(key string, v bsonraw.Value) (rule, error) {
	switch v.Type {
	case bsoncore.TypeBoolean:
		allowed := bsonraw.Truthy(v)
		return func(bsonraw.Value) bool { return allowed }, nil
	case bsoncore.TypeEmbeddedDocument:
		s, err := compileSchema(v)
		return s.holds, err
	}
	return nil, schemaType(key, "an object or a boolean")
}

func schemaDependencies(v bsonraw.Value) (rule, error) {
	if v.Type != bsoncore.TypeEmbeddedDocument {
		return nil, schemaType("dependencies", "an object")
	}
	dependencies := map[string]rule{}
	for it := bsonraw.NewIter(v.Data); it.Next(); {
		var r rule
		var err error
		if it.Value().Type == bsoncore.TypeArray {
			r, err = schemaRequired(it.Value())
		} else {
			var s schema
			s, err = compileSchema(it.Value())
			r = s.holds
		}
		if err != nil {
			return nil, err
		}
		dependencies[string(it.Key())] = r
	}
	return onType(bsoncore.TypeEmbeddedDocument, func(v bsonraw.Value) bool {
		for name, r := range dependencies {
			if _, ok := bsonraw.Lookup(v.Data, name); ok && !r(v) {
				return false
			}
		}
		return true
	}), nil
}

func schemaArray(key string, v bsonraw.Value, siblings []byte) (rule, error) {
	switch key {
	case "items":
		return schemaItems(v)
	case "additionalItems":
		items, _ := bsonraw.Lookup(siblings, "items")
		others, err := allowedOr(key, v)
		if items.Type != bsoncore.TypeArray || err != nil {
			return nil, err
		}
		first := bsonraw.Len(items.Data)
		return onType(bsoncore.TypeArray, func(v bsonraw.Value) bool {
			for i, e := range bsonraw.Elements(v.Data) {
				if i >= first && !others(e) {
					return false
				}
			}
			return true
		}), nil
	case "uniqueItems":
		if v.Type != bsoncore.TypeBoolean {
			return nil, schemaType(key, "a boolean")
		}
		if !bsonraw.Truthy(v) {
			return nil, nil
		}
		return onType(bsoncore.TypeArray, func(v bsonraw.Value) bool {
			elements := bsonraw.Elements(v.Data)
			for i, a := range elements {
				for _, b := range elements[:i] {
					if bsonraw.Equal(a, b) {
						return false
					}
				}
			}
			return true
		}), nil
	}
	n, err := schemaCount(key, v)
	return onType(bsoncore.TypeArray, func(v bsonraw.Value) bool {
		length := int64(bsonraw.Len(v.Data))
		return key == "minItems" && length >= n || key == "maxItems" && length <= n
	}), err
}

// schemaItems compiles items: one schema for all elements, or a list of schemas for the
// first elements.
func schemaItems(v bsonraw.Value) (rule, error) {
	if v.Type == bsoncore.TypeArray {
		var schemas []schema
		for _, e := range bsonraw.Elements(v.Data) {
			s, err := compileSchema(e)
			if err != nil {
				return nil, err
			}
			schemas = append(schemas, s)
		}
		return onType(bsoncore.TypeArray, func(v bsonraw.Value) bool {
			for i, e := range bsonraw.Elements(v.Data) {
				if i < len(schemas) && !schemas[i].holds(e) {
					return false
				}
			}
			return true
		}), nil
	}
	s, err := compileSchema(v)
	return onType(bsoncore.TypeArray, func(v bsonraw.Value) bool {
		for it := bsonraw.NewIter(v.Data); it.Next(); {
			if !s.holds(it.Value()) {
				return false
			}
		}
		return true
	}), err
}
