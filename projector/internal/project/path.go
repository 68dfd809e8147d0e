package project

import (
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// fieldPath is where an operation works: the name of a field, or with dots the way
// through documents to one. It never leads into an array.
type fieldPath []string

func (p fieldPath) String() string { return strings.Join(p, ".") }

// parsePath checks a path. Fields of the engine, and names that MongoDB would take
// for operators, are refused.
func parsePath(text string) (fieldPath, error) {
	parts := strings.Split(text, ".")
	for _, part := range parts {
		switch {
		case part == "":
			return nil, fmt.Errorf("field path %q has an empty name", text)
		case part[0] == '$':
			return nil, fmt.Errorf("field path %q has a name that starts with $, which MongoDB takes for an operator", text)
		case strings.IndexByte(part, 0) >= 0:
			return nil, fmt.Errorf("field path %q holds a zero byte", text)
		}
	}
	if engineOwned(parts[0]) {
		return nil, fmt.Errorf("field %s belongs to the engine", parts[0])
	}
	if len(parts) > maxDepth {
		return nil, fmt.Errorf("field path %q is deeper than %d levels", text, maxDepth)
	}
	return parts, nil
}

// overlaps reports whether two operations would touch the same value.
func (p fieldPath) overlaps(q fieldPath) bool {
	for i := range min(len(p), len(q)) {
		if p[i] != q[i] {
			return false
		}
	}
	return true
}

// change is what an operation does with the value at its path: the new value given
// the old one, either of them absent with Type 0.
type change func(old bson.RawValue) (bson.RawValue, error)

// errNoDocument says that a path leads through something that is no document.
var errNoDocument = errors.New("no document")

// rewrite applies do at p inside a document, and gives the new document. Documents
// on the way that do not exist are made, unless nothing comes to be in them. An
// absent document is nil.
func (p fieldPath) rewrite(doc []byte, do change) ([]byte, error) {
	old, _ := lookup(doc, p[0])
	next, err := p.step(old, do)
	if err != nil {
		return nil, err
	}
	if !present(old) && !present(next) {
		return doc, nil
	}
	return replaceField(doc, p[0], next), nil
}

// step applies do to a value that the first name of p stands for.
func (p fieldPath) step(old bson.RawValue, do change) (bson.RawValue, error) {
	if len(p) == 1 {
		return do(old)
	}
	if present(old) && old.Type != bson.TypeEmbeddedDocument {
		return old, fmt.Errorf("%s is %s: %w", p[0], typeName(old), errNoDocument)
	}
	inner, err := p[1:].rewrite(old.Value, do)
	if err != nil || inner == nil {
		return old, err
	}
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: inner}, nil
}

// replaceField gives a copy of doc in which the field has that value, in its old
// place or at the end; with an absent value it is gone.
func replaceField(doc []byte, name string, v bson.RawValue) []byte {
	start, dst := bsoncore.AppendDocumentStart(make([]byte, 0, len(doc)+len(name)+len(v.Value)+len(emptyDocument)+2))
	done := false
	r := readFields(doc)
	for {
		key, value, ok := r.next()
		if !ok {
			break
		}
		if string(key) == name {
			if present(v) {
				dst = appendField(dst, name, v)
			}
			done = true
			continue
		}
		dst = append(dst, byte(value.Type))
		dst = append(dst, key...)
		dst = append(dst, 0)
		dst = append(dst, value.Value...)
	}
	if !done && present(v) {
		dst = appendField(dst, name, v)
	}
	return finishDocument(dst, start)
}
