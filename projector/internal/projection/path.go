package projection

import (
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// fieldPath is the path to the field that an operation changes: the field's name, or the
// names of nested documents and the field, which are written with dots. It never leads
// into an array.
type fieldPath []string

func (p fieldPath) String() string { return strings.Join(p, ".") }

// parsePath parses and checks a path. It rejects fields of the engine and names that
// MongoDB would read as operators.
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
		return nil, fmt.Errorf("field %s belongs to Penstock, which writes it by itself: _id is the aggregateId, lastEventId the eventId. Store another value under another name", parts[0])
	}
	if len(parts) > maxDepth {
		return nil, fmt.Errorf("field path %q is deeper than %d levels", text, maxDepth)
	}
	return parts, nil
}

// overlaps reports whether two paths are equal or one is inside the other.
func (p fieldPath) overlaps(q fieldPath) bool {
	for i := range min(len(p), len(q)) {
		if p[i] != q[i] {
			return false
		}
	}
	return true
}

// change computes the new value at an operation's path from the old one. A value with
// Type 0 is absent.
type change func(old bson.RawValue) (bson.RawValue, error)

// errNoDocument is returned if a path leads through a value that is not a document.
var errNoDocument = errors.New("no document")

// rewrite applies do at p inside a document and returns the new document. It creates
// missing documents on the path, unless they would stay empty. An absent document is nil.
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

// step applies do to the value of the first name of p, or inside it.
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

// replaceField returns a copy of doc in which the field has the value v, at its old place
// or at the end. If v is absent, the field is removed.
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
