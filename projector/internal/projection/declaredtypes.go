package projection

import (
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// The section events declares types, and an event that contradicts them parks its aggregate before
// an expression runs: otherwise a text that should be a date would be stored, and no reader's
// query would find it. Only fields that the expressions of a projection read are compared. Their
// types are in its definition, because they determine the result. The types of other fields are
// not, so declaring them rebuilds nothing.

// admitted returns the words of the types in BSON that a word of type or bsonType allows. Numbers
// have one word, because a driver decides by the value as which type it stores a number.
func admitted(word string) string {
	switch word {
	case "integer", "int", "long", "double", "decimal":
		return wordNumber
	case "boolean":
		return "bool"
	}
	return word
}

const wordNumber = "number"

// admits reports whether a value has one of the declared types.
func (s *schema) admits(v bson.RawValue) bool {
	if s.words == nil || slices.Contains(s.words, fold.TypeName(v)) {
		return true
	}
	_, number := fold.NumberOf(v)
	return number && slices.Contains(s.words, wordNumber)
}

// check returns an error if the value, or a value in it, has another type than declared.
func (s *schema) check(v bson.RawValue) error {
	if !s.admits(v) {
		return fmt.Errorf("%s is %s, and the section events declares it as %s: correct the event or the declaration, then retry", s.name, fold.TypeName(v), strings.Replace(strings.Join(s.words, " or "), wordNumber, "number (of any type)", 1))
	}
	switch {
	case v.Type == bson.TypeEmbeddedDocument && s.properties != nil:
		for name, value := range fold.ReadFields(v.Value).All() {
			if field := s.properties[string(name)]; field != nil {
				if err := field.check(value); err != nil {
					return err
				}
			}
		}
	case v.Type == bson.TypeArray && s.element != nil:
		for _, value := range fold.ReadFields(v.Value).All() {
			if err := s.element.check(value); err != nil {
				return err
			}
		}
	}
	return nil
}

// read returns the part of the schema for values at the paths, which begin at its value. An
// empty path stands for the whole value. It returns nil if the schema says nothing about them.
func (s *schema) read(paths [][]string) *schema {
	if s == nil || len(paths) == 0 {
		return nil
	}
	r := &schema{name: s.name, words: s.words}
	whole := slices.ContainsFunc(paths, func(path []string) bool { return len(path) == 0 })
	if whole {
		r.element = s.element.read(paths)
	}
	for name, field := range s.properties {
		below := [][]string{}
		if whole {
			below = append(below, nil)
		}
		for _, path := range paths {
			if len(path) > 0 && path[0] == name {
				below = append(below, path[1:])
			}
		}
		if found := field.read(below); found != nil {
			if r.properties == nil {
				r.properties = map[string]*schema{}
			}
			r.properties[name] = found
		}
	}
	if r.words == nil && r.properties == nil && r.element == nil {
		return nil
	}
	return r
}

// describe returns the types of the schema in canonical form, as a schema of the section events.
func (s *schema) describe() map[string]any {
	described := map[string]any{}
	if s.words != nil {
		described["bsonType"] = s.words
	}
	if s.properties != nil {
		properties := map[string]any{}
		for name, field := range s.properties {
			properties[name] = field.describe()
		}
		described["properties"] = properties
	}
	if s.element != nil {
		described["items"] = s.element.describe()
	}
	return described
}

// readTypes are the declared types of the fields that the expressions of the present projection
// read, by event type.
func (l *loader) readTypes() map[string]*schema {
	found := map[string]*schema{}
	for eventType, read := range l.reads {
		var paths [][]string
		for _, path := range read {
			if path[0] == varEvent && len(path) > 1 {
				path = path[1:]
			}
			switch path[0] {
			case varPayload:
				paths = append(paths, path[1:])
			case varEvent:
				paths = append(paths, nil)
			}
		}
		// Without a field, the schema says only that the payload is a document.
		if s := l.schemas[eventType].read(paths); s != nil && s.properties != nil {
			found[eventType] = s
		}
	}
	return found
}
