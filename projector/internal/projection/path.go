package projection

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// fieldPath is the path to the value that an operation changes. It begins with the name of
// a top-level field, and is never empty.
type fieldPath []pathStep

// pathStep leads from a document to one of its fields, or from an array to the elements with
// an id.
type pathStep struct {
	// name is the name of the field. If element is set, it is the field that has the id of an
	// element.
	name    string
	element bool
	// key gives the name of the field, or the id of the element, for each event. It is nil if
	// the name is declared.
	key *expression
	// id is the result of key if element is set.
	id bson.RawValue
}

// String returns the path as a file of declarations has it.
func (p fieldPath) String() string {
	return p.text(func(x *expression) string { return x.source })
}

// canonical returns the path with its expressions in canonical form.
func (p fieldPath) canonical() string {
	return p.text(func(x *expression) string { return x.canonical })
}

// text returns the path with the expressions in the given form.
func (p fieldPath) text(source func(*expression) string) string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case s.key != nil && s.element:
			b.WriteString("[" + s.name + "=" + source(s.key) + "]")
		case s.key != nil:
			b.WriteString("[" + source(s.key) + "]")
		case i > 0:
			b.WriteString("." + quotedName(s.name))
		default:
			b.WriteString(quotedName(s.name))
		}
	}
	return b.String()
}

// specialInPaths are the characters that a name in a path can contain only in backquotes.
const specialInPaths = "[]()`"

// quotedName returns a name as a path has it.
func quotedName(name string) string {
	if strings.ContainsAny(name, specialInPaths) {
		return "`" + name + "`"
	}
	return name
}

// computed reports whether a part of the path depends on the event.
func (p fieldPath) computed() bool {
	return slices.ContainsFunc(p, func(s pathStep) bool { return s.key != nil })
}

// pathPart is a part of the text of a path: a name, or an expression in brackets.
type pathPart struct {
	name string
	// expression is the text in the brackets, without the name and the = of an element. at is
	// where the brackets begin; 0 for a name.
	expression string
	at         int
}

// ofElement matches the beginning of an expression in brackets that selects elements.
var ofElement = regexp.MustCompile(`^\s*([A-Za-z_][A-Za-z0-9_]*)\s*=(=?)`)

// splitPath splits the text of a path.
func splitPath(text string) (parts []pathPart, err error) {
	for i := 0; ; i++ {
		name, end, err := splitName(text, i)
		if err != nil {
			return nil, err
		}
		parts = append(parts, pathPart{name: name})
		for i = end; i < len(text) && text[i] == '['; i++ {
			end := closingBracket(text, i)
			if end < 0 {
				return nil, fmt.Errorf("field path %q has a [ without its ]", text)
			}
			part := pathPart{expression: text[i+1 : end], at: i}
			if m := ofElement.FindStringSubmatch(part.expression); m != nil {
				if m[2] != "" && !variables[m[1]] {
					return nil, fmt.Errorf("the brackets compare %s: an element is selected with a single =, such as [%[1]s=%s]", m[1], strings.TrimSpace(part.expression[len(m[0]):]))
				}
				if m[2] == "" {
					part.name, part.expression = m[1], part.expression[len(m[0]):]
				}
			}
			parts = append(parts, part)
			i = end
		}
		switch {
		case i == len(text):
			return parts, nil
		case text[i] != '.':
			return nil, fmt.Errorf("field path %q has a %c where a dot or its end is expected: brackets hold an expression, such as byReason[payload.reason], and a name that contains one of %s stands in backquotes", text, text[i], specialInPaths[:4])
		}
	}
}

// splitName returns the name that begins at i, and where it ends.
func splitName(text string, i int) (name string, end int, err error) {
	if i < len(text) && text[i] == '`' {
		n := strings.IndexByte(text[i+1:], '`')
		if n < 0 {
			return "", 0, fmt.Errorf("field path %q has a backquote without its pair", text)
		}
		name, end = text[i+1:i+1+n], i+n+2
		if strings.Contains(name, ".") {
			return "", 0, fmt.Errorf("field path %q has a name with a dot, which MongoDB takes for a path", text)
		}
		return name, end, checkPathName(text, name)
	}
	end = len(text)
	if n := strings.IndexAny(text[i:], "."+specialInPaths); n >= 0 {
		end = i + n
	}
	name = text[i:end]
	if name == "" && end < len(text) && text[end] == '[' {
		return "", 0, fmt.Errorf("field path %q has brackets without a name before them: a field of the document itself has a name that is declared", text)
	}
	return name, end, checkPathName(text, name)
}

// checkPathName rejects names that MongoDB would read as operators.
func checkPathName(path, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("field path %q has an empty name", path)
	case name[0] == '$':
		return fmt.Errorf("field path %q has a name that starts with $, which MongoDB takes for an operator", path)
	case strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("field path %q holds a zero byte", path)
	}
	return nil
}

// closingBracket returns the position of the ] for the [ at i; -1 if there is none.
func closingBracket(text string, i int) int {
	depth := 0
	for ; i < len(text); i++ {
		switch text[i] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return i
			}
		case '"', '\'':
			i = literalEnd(text, i, strings.ContainsRune("rR", rune(text[i-1]))) - 1
		}
	}
	return -1
}

// checkPath rejects fields of the engine, and what no operation could do.
func checkPath(text string, parts []pathPart) error {
	if model.EngineOwned(parts[0].name) {
		return fmt.Errorf("field %s belongs to Penstock, which writes it by itself: _id is the aggregateId, lastEventId the eventId. Store another value under another name", parts[0].name)
	}
	if len(parts) > maxDepth {
		return fmt.Errorf("field path %q is deeper than %d levels", text, maxDepth)
	}
	for i, part := range parts {
		if part.at == 0 || part.name == "" || i+1 == len(parts) {
			continue
		}
		switch next := parts[i+1]; {
		case next.at == 0 && next.name == part.name:
			return fmt.Errorf("field path %q changes %s, which selects the element: unset the element and set another one", text, part.name)
		case next.at > 0:
			return fmt.Errorf("field path %q has brackets right after those of an element: name a field of the element between them", text)
		}
	}
	return nil
}

// overlaps reports whether two paths can lead to the same value, or one inside the other. A
// computed name can equal every name.
func (p fieldPath) overlaps(q fieldPath) bool {
	for i := range min(len(p), len(q)) {
		if p[i].key == nil && q[i].key == nil && p[i].name != q[i].name {
			return false
		}
	}
	return true
}

// inBrackets names an expression of a path in errors.
const inBrackets = "in brackets"

// resolve returns the path for one event; nil if an expression in it gives an empty optional.
func (p fieldPath) resolve(s *scope) (fieldPath, error) {
	resolved := slices.Clone(p)
	for i := range resolved {
		step := &resolved[i]
		if step.key == nil {
			continue
		}
		v, ok, err := step.key.run(s, inBrackets)
		if err != nil || !ok {
			return nil, err
		}
		if err := step.take(v, &s.event.meter); err != nil {
			return nil, step.key.failed(s, inBrackets, err)
		}
	}
	return resolved, nil
}

// take sets the name of a field, or the id of an element, to the result of the key.
func (s *pathStep) take(v ref.Val, m *meter) (err error) {
	if s.element {
		if s.id, err = encodeValue(v, m); err != nil {
			return err
		}
		switch s.id.Type {
		case bson.TypeNull, bson.TypeEmbeddedDocument, bson.TypeArray:
			return fmt.Errorf("the id of an element is %s: an id is a text, a number or another single value", fold.TypeName(s.id))
		}
		return nil
	}
	if s.name, err = keyName(v); err != nil {
		return err
	}
	m.spend(len(s.name), len(s.name))
	return nil
}

// keyName returns the name of a field for the result of an expression. A whole double has the name
// of the int, because a driver decides which kind it stores 10 as.
func keyName(v ref.Val) (string, error) {
	switch v := v.(type) {
	case types.String:
		if strings.IndexByte(string(v), 0) >= 0 || !utf8.ValidString(string(v)) {
			return "", fmt.Errorf("the name %.100q is not valid: it holds a zero byte or is not UTF-8", string(v))
		}
		return string(v), nil
	case types.Int:
		return strconv.FormatInt(int64(v), 10), nil
	case types.Double:
		if whole := math.Trunc(float64(v)); whole == float64(v) && math.Abs(whole) < 1<<53 {
			return strconv.FormatInt(int64(whole), 10), nil
		}
	case types.Null:
		return "", errors.New("the name is null: give it a default, such as payload.?reason.orValue('none')")
	}
	if isDecimal(v) {
		return "", errors.New("the name is a Decimal128: convert the value with int(), or with string(), for which 10 and 10.0 have different names")
	}
	return "", fmt.Errorf("the name is %s: a name is a text or a whole number, so convert the value with string()", plainType(v.Type().TypeName()))
}

// change computes the new value at an operation's path from the old one. A value with
// Type 0 is absent.
type change func(old bson.RawValue) (bson.RawValue, error)

// errNoDocument is returned if a path leads through a value that is not a document.
var errNoDocument = errors.New("no document")

// rewrite applies do at p inside a document and returns the new document. It creates
// missing documents on the path, unless they would stay empty. An absent document is nil.
func (p fieldPath) rewrite(doc []byte, do change, m *meter) ([]byte, error) {
	old, _ := fold.Lookup(doc, p[0].name)
	next, err := p.step(old, do, m)
	if err != nil {
		return nil, err
	}
	if !fold.Present(old) && !fold.Present(next) {
		return doc, nil
	}
	return fold.ReplaceField(doc, p[0].name, next), nil
}

// step applies do to the value of the first name of p, or inside it.
func (p fieldPath) step(old bson.RawValue, do change, m *meter) (bson.RawValue, error) {
	if len(p) == 1 {
		return do(old)
	}
	if p[1].element {
		return p[1:].elements(old, do, m)
	}
	if fold.Present(old) && old.Type != bson.TypeEmbeddedDocument {
		return old, fmt.Errorf("%s is %s: %w", p[0].name, fold.TypeName(old), errNoDocument)
	}
	inner, err := p[1:].rewrite(old.Value, do, m)
	if err != nil || inner == nil {
		return old, err
	}
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: inner}, nil
}

// elements applies do to each element of an array with the id of p's first step, or inside
// it. If there is none, it appends one.
func (p fieldPath) elements(array bson.RawValue, do change, m *meter) (bson.RawValue, error) {
	if fold.Present(array) && array.Type != bson.TypeArray {
		return array, errNotArray(array)
	}
	var all []bson.RawValue
	found, changed := false, false
	for _, element := range m.fields(array.Value).all() {
		if p[0].selects(element, m) {
			found = true
			next, err := p.element(element, do, m)
			if err != nil {
				return array, err
			}
			changed = changed || !fold.SameBytes(element, next)
			element = next
		}
		if fold.Present(element) {
			m.spend(0, elementMemory)
			all = append(all, element)
		}
	}
	if !found {
		added, err := p.element(bson.RawValue{}, do, m)
		if err != nil || !fold.Present(added) {
			return array, err
		}
		return fold.ArrayOf(array, []bson.RawValue{added}), nil
	}
	if !changed {
		return array, nil
	}
	return fold.ArrayOf(bson.RawValue{}, all), nil
}

// selects reports whether an element has the id.
func (s *pathStep) selects(element bson.RawValue, m *meter) bool {
	if element.Type != bson.TypeEmbeddedDocument {
		return false
	}
	id, ok := m.lookup(element.Value, s.name)
	return ok && equalValues(id, s.id, m)
}

// element applies do to an element, or inside it, and sees to its id.
func (p fieldPath) element(old bson.RawValue, do change, m *meter) (bson.RawValue, error) {
	next, err := p.step(old, do, m)
	if err != nil || !fold.Present(next) {
		return next, err
	}
	m.spend(len(next.Value)/bytesPerWork, len(next.Value))
	switch {
	case next.Type != bson.TypeEmbeddedDocument:
		return old, fmt.Errorf("the value is %s, and an element with the field %s is an object", fold.TypeName(next), p[0].name)
	case p[0].selects(next, m):
		return next, nil
	}
	if id, ok := fold.Lookup(next.Value, p[0].name); ok {
		return old, fmt.Errorf("the value has another %s than the path: %s", p[0].name, Show(id))
	}
	start, dst := bsoncore.AppendDocumentStart(nil)
	dst = append(fold.AppendField(dst, p[0].name, p[0].id), next.Value[4:len(next.Value)-1]...)
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: fold.FinishDocument(dst, start)}, nil
}
