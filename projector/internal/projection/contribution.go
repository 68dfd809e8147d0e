package projection

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// contribution says to which documents of a view a part contributes, and what. A part keeps
// the result, so that its documents can be made without the expressions:
//
//	documents: [
//	  {key: "c-1", as: "orders", totals: {openCents: 500, count: 1}},
//	]
type contribution struct {
	// each gives the elements that contribute one by one; nil if the part does as a whole.
	each *expression
	// key gives the _id of the document.
	key *expression
	// as is the field of the document that has the part, or its elements, under the
	// aggregate's id, or in a list of the view. If fields is set, the part's fields are those
	// of the document. Both can be missing: then only the totals have the part.
	as     string
	fields bool
	totals []contributedTotal
	// view says which other fields a document has.
	view *fold.View
}

// contributedTotal is what the parts of a source add to a total.
type contributedTotal struct {
	fold.Total
	doing operation
	// value is nil for a count, and by unless the total is by key. The part adds nothing if where
	// is false, or if the value or the key is null or an empty optional.
	value, where, by *expression
}

// The words of a contribution, as operations in errors.
var (
	doingEach = operation{op: "each"}
	doingKey  = operation{op: "key"}
)

// one is what a part adds to a count.
var one = fold.IntegerValue(1)

const (
	// maxDocuments bounds the documents to which one part contributes.
	maxDocuments = 1000
	// maxDocumentKey bounds the _id of a view document, in bytes.
	maxDocumentKey = 1024
)

// refresh computes the documents of the part from the part after an event.
func (c *contribution) refresh(s *scope, d *document) error {
	defer func() { s.element = nil }()
	d.large = nil // it has values of the document before the change
	elements, err := c.elements(s, d)
	if err != nil {
		return err
	}
	start, dst := bsoncore.AppendDocumentStart(nil)
	n := 0
	for _, s.element = range elements {
		var ok bool
		if dst, ok, err = c.append(dst, n, s, d); err != nil {
			return err
		}
		if ok {
			n++
		}
	}
	documents := bson.RawValue{Type: bson.TypeArray, Value: fold.FinishDocument(dst, start)}
	if field := d.Touch(model.FieldDocuments); !fold.SameBytes(field.Whole(), documents) {
		field.Replace(documents)
	}
	return nil
}

// elements returns what contributes one by one.
func (c *contribution) elements(s *scope, d *document) ([]ref.Val, error) {
	if c.each == nil {
		return []ref.Val{nil}, nil
	}
	s.doing = &doingEach
	v, ok, err := c.each.run(s, "")
	if err != nil || !ok || v == types.NullValue {
		return nil, err
	}
	list, isList := v.(traits.Lister)
	if !isList {
		return nil, c.each.failed(s, "", fmt.Errorf("the result is %s, not a list", v.Type().TypeName()))
	}
	if n := listSize(list); n > maxDocuments {
		return nil, c.each.failed(s, "", fmt.Errorf("the list has %d elements, and a part contributes to at most %d documents", n, maxDocuments))
	}
	d.meter.spend(listSize(list)*fieldWork, listSize(list)*elementMemory)
	return elementsOf(list), nil
}

// append appends the contribution of the scope's element, or of the part; false if it has no
// key.
func (c *contribution) append(dst []byte, n int, s *scope, d *document) ([]byte, bool, error) {
	s.doing = &doingKey
	v, ok, err := c.key.run(s, "")
	if err != nil || !ok || v == types.NullValue {
		return dst, false, err
	}
	key, err := documentKey(v)
	if err != nil {
		return dst, false, c.key.failed(s, "", err)
	}
	d.meter.spend(len(key), len(key)+elementMemory)
	element := bson.RawValue{}
	if c.each != nil && (c.as != "" || c.fields) {
		if element, err = encodeValue(s.element, d.meter); err != nil {
			return dst, false, fmt.Errorf("each: %s: %w", c.each.source, err)
		}
	}
	start, dst, err := c.begin(dst, n, key, element)
	if err != nil {
		return dst, false, fmt.Errorf("each: %s: %w", c.each.source, err)
	}
	totals, dst := bsoncore.AppendDocumentElementStart(dst, fold.ContributedTotals)
	for i := range c.totals {
		t := &c.totals[i]
		value, err := t.of(s, d)
		if err != nil {
			return dst, false, err
		}
		if fold.Present(value) {
			dst = fold.AppendField(dst, t.Name, value)
		}
	}
	return fold.FinishDocument(fold.FinishDocument(dst, totals), start), true, nil
}

// begin begins a contribution. element is absent if the part itself contributes.
func (c *contribution) begin(dst []byte, n int, key string, element bson.RawValue) (start int32, _ []byte, err error) {
	dst = fold.AppendIndex(append(dst, byte(bson.TypeEmbeddedDocument)), n)
	start, dst = bsoncore.AppendDocumentStart(append(dst, 0))
	dst = bsoncore.AppendStringElement(dst, model.FieldKey, key)
	if c.as != "" {
		dst = bsoncore.AppendStringElement(dst, fold.ContributedAs, c.as)
	}
	if c.fields {
		dst = bsoncore.AppendBooleanElement(dst, fold.ContributedFields, true)
	}
	if !fold.Present(element) || c.as == "" && !c.fields {
		return start, dst, nil
	}
	if c.fields && element.Type != bson.TypeEmbeddedDocument {
		return start, dst, fmt.Errorf("the element is %s, and the fields of a document are those of a document", fold.TypeName(element))
	}
	if _, list := c.view.Lists[c.as]; list {
		if element.Type != bson.TypeEmbeddedDocument {
			return start, dst, fmt.Errorf("the element is %s, and the elements of a list are documents", fold.TypeName(element))
		}
		if _, taken := fold.Lookup(element.Value, fold.FieldAggregateID); taken {
			return start, dst, fmt.Errorf("the element has a field %s, which is where a list has the id of the aggregate: use another name", fold.FieldAggregateID)
		}
	}
	if c.fields {
		if err := c.view.CheckGiven(element.Value); err != nil {
			return start, dst, fmt.Errorf("the element: %w", err)
		}
	}
	return start, fold.AppendField(dst, fold.ContributedElement, element), nil
}

// aboutKeys is the remedy for keys of other types.
const aboutKeys = "a key is a text, a whole number, an ObjectId or a UUID: convert the value with string(), or a Decimal128 with int()"

// documentKey returns the _id of the document for the result of key.
func documentKey(v ref.Val) (string, error) {
	name := plainType(v.Type().TypeName())
	switch v := v.(type) {
	case types.String:
		return string(v), checkDocumentKey(string(v))
	case opaque:
		if key, ok := v.text(); ok && !isDecimal(v) {
			return key, nil
		}
		if v.Type() == typeOlderUUID {
			return "", fmt.Errorf("the key: %s", aboutOlderUUIDs)
		}
		name = fold.TypeName(v.raw)
	case types.Int, types.Double:
		if key, err := keyName(v); err == nil {
			return key, nil
		}
	}
	return "", fmt.Errorf("the key is %s, and %s", name, aboutKeys)
}

func checkDocumentKey(key string) error {
	switch {
	case key == "":
		return errors.New("the key is empty: give null if the part belongs to no document")
	case len(key) > maxDocumentKey:
		return fmt.Errorf("the key has %d bytes, and at most %d are allowed", len(key), maxDocumentKey)
	case strings.IndexByte(key, 0) >= 0 || !utf8.ValidString(key):
		return fmt.Errorf("the key %.100q has a NUL or is not UTF-8: leave such characters out", key)
	}
	return nil
}

// of returns what the part adds to the total; absent if it adds nothing.
func (t *contributedTotal) of(s *scope, d *document) (bson.RawValue, error) {
	s.doing = &t.doing
	if holds, err := t.where.holds(s, "where", nil); err != nil || !holds {
		return bson.RawValue{}, err
	}
	value := one
	if t.Kind != fold.TotalCount {
		v, ok, err := t.value.run(s, "")
		if err != nil || !ok || v == types.NullValue {
			return bson.RawValue{}, err
		}
		if value, err = encodeValue(v, d.meter); err == nil {
			value, err = t.Kind.Admit(value)
		}
		if err != nil {
			return bson.RawValue{}, t.value.failed(s, "", err)
		}
	}
	if t.by == nil {
		return value, nil
	}
	v, ok, err := t.by.run(s, "by")
	if err != nil || !ok || v == types.NullValue {
		return bson.RawValue{}, err
	}
	key, err := keyName(v)
	if err != nil {
		return bson.RawValue{}, t.by.failed(s, "by", err)
	}
	d.meter.spend(len(key), len(key)+elementMemory)
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: fold.ReplaceField(nil, key, value)}, nil
}
