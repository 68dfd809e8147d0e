package projection

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

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
	// aggregate's id. If fields is set, the part's fields are those of the document. Both
	// can be missing: then only the totals have the part.
	as     string
	fields bool
	totals []contributedTotal
	// view says which other fields a document has.
	view *view
}

// contributedTotal is what the parts of a source add to a total.
type contributedTotal struct {
	total
	// value is nil for a count. The part adds nothing if where is false, or if the value is
	// null or an empty optional.
	value, where *expression
}

// The words of a contribution, as operations in errors.
const (
	opEach  operator = "each"
	opKey   operator = "key"
	opTotal operator = "total"
)

const (
	// maxDocuments bounds the documents to which one part contributes.
	maxDocuments = 1000
	// maxDocumentKey bounds the _id of a view document, in bytes.
	maxDocumentKey = 1024
)

// The fields of an element of model.FieldDocuments, besides model.FieldKey.
const (
	contributedAs      = "as"
	contributedFields  = "fields"
	contributedElement = "element"
	contributedTotals  = "totals"
)

// refresh computes the documents of the part from the part after an event.
func (c *contribution) refresh(s *scope, d *document) error {
	defer func() { s.element = nil }()
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
	documents := bson.RawValue{Type: bson.TypeArray, Value: finishDocument(dst, start)}
	if field := d.touch(model.FieldDocuments); !sameBytes(field.whole(), documents) {
		field.replace(documents)
	}
	return nil
}

// elements returns what contributes one by one.
func (c *contribution) elements(s *scope, d *document) ([]ref.Val, error) {
	if c.each == nil {
		return []ref.Val{nil}, nil
	}
	v, ok, err := evaluate(s, d, operation{op: opEach}, c.each)
	if err != nil || !ok || v == types.NullValue {
		return nil, err
	}
	list, isList := v.(traits.Lister)
	if !isList {
		return nil, fmt.Errorf("each: %s: the result is %s, not a list", c.each.source, v.Type().TypeName())
	}
	if n := listSize(list); n > maxDocuments {
		return nil, fmt.Errorf("each: %s: the list has %d elements, and a part contributes to at most %d documents", c.each.source, n, maxDocuments)
	}
	d.meter.spend(listSize(list)*fieldWork, listSize(list)*elementMemory)
	return elementsOf(list), nil
}

// evaluate evaluates an expression of a view on the document after an event.
func evaluate(s *scope, d *document, o operation, x *expression) (ref.Val, bool, error) {
	s.doing = &o
	d.large = nil // it has values of the document before the change
	v, ok, err := x.eval(s)
	if s.trace != nil {
		s.trace.note(o.String(), x, s, v, err)
	}
	if err != nil {
		err = fmt.Errorf("%s: %s: %w", &o, x.source, err)
	}
	return v, ok, err
}

// append appends the contribution of the scope's element, or of the part; false if it has no
// key.
func (c *contribution) append(dst []byte, n int, s *scope, d *document) ([]byte, bool, error) {
	v, ok, err := evaluate(s, d, operation{op: opKey}, c.key)
	if err != nil || !ok || v == types.NullValue {
		return dst, false, err
	}
	key, err := documentKey(v)
	if err != nil {
		return dst, false, fmt.Errorf("key: %s: %w", c.key.source, err)
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
	totals, dst := bsoncore.AppendDocumentElementStart(dst, contributedTotals)
	for i := range c.totals {
		t := &c.totals[i]
		value, err := t.of(s, d)
		if err != nil {
			return dst, false, err
		}
		if present(value) {
			dst = appendField(dst, t.name, value)
		}
	}
	return finishDocument(finishDocument(dst, totals), start), true, nil
}

// begin begins a contribution. element is absent if the part itself contributes.
func (c *contribution) begin(dst []byte, n int, key string, element bson.RawValue) (start int32, _ []byte, err error) {
	dst = appendIndex(append(dst, byte(bson.TypeEmbeddedDocument)), n)
	start, dst = bsoncore.AppendDocumentStart(append(dst, 0))
	dst = bsoncore.AppendStringElement(dst, model.FieldKey, key)
	if c.as != "" {
		dst = bsoncore.AppendStringElement(dst, contributedAs, c.as)
	}
	if c.fields {
		dst = bsoncore.AppendBooleanElement(dst, contributedFields, true)
	}
	if !present(element) || c.as == "" && !c.fields {
		return start, dst, nil
	}
	if c.fields && element.Type != bson.TypeEmbeddedDocument {
		return start, dst, fmt.Errorf("the element is %s, and the fields of a document are those of a document", typeName(element))
	}
	if c.fields {
		if err := c.view.checkGiven(element.Value); err != nil {
			return start, dst, fmt.Errorf("the element: %w", err)
		}
	}
	return start, appendField(dst, contributedElement, element), nil
}

// aboutKeys is the remedy for keys of other types.
const aboutKeys = "a key is a text, a whole number, an ObjectId or a UUID: convert the value with string()"

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
		name = typeName(v.raw)
	case types.Int, types.Uint, types.Double:
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
	o := operation{op: opTotal, path: fieldPath{{name: t.name}}}
	if t.where != nil {
		v, ok, err := evaluate(s, d, o, t.where)
		if err != nil {
			return bson.RawValue{}, err
		}
		holds, isBool := v.(types.Bool)
		if ok && !isBool {
			return bson.RawValue{}, fmt.Errorf("%s: where: %s: %w", &o, t.where.source, errNotBool)
		}
		if !ok || !bool(holds) {
			return bson.RawValue{}, nil
		}
	}
	if t.kind == totalCount {
		return integerValue(1), nil
	}
	v, ok, err := evaluate(s, d, o, t.value)
	if err != nil || !ok || v == types.NullValue {
		return bson.RawValue{}, err
	}
	value, err := encodeValue(v, d.meter)
	if err == nil {
		value, err = t.kind.admit(value)
	}
	if err != nil {
		return bson.RawValue{}, fmt.Errorf("%s: %s: %w", &o, t.value.source, err)
	}
	return value, nil
}

// admit returns a value in the form in which a total takes it.
func (k totalKind) admit(v bson.RawValue) (bson.RawValue, error) {
	switch k {
	case totalSum:
		n, ok := numberOf(v)
		switch {
		case !ok:
			return v, fmt.Errorf("the value is %s, not a number", typeName(v))
		case n.kind == integerNumber:
			return integerValue(n.i), nil
		case n.kind == doubleNumber && n.f == math.Trunc(n.f) && math.Abs(n.f) < 1<<53:
			return integerValue(int64(n.f)), nil
		case n.magnitude() != 0:
			return v, fmt.Errorf("%v cannot be added: leave it out with where", n.magnitude())
		case n.kind == doubleNumber:
			return v, errors.New("a sum of doubles with a fraction, or from 2^53 on, depends on the order in which they are added: convert the value with decimal(), or add whole numbers of a smaller unit")
		}
		return v, nil
	case totalMin, totalMax:
		if n, ok := numberOf(v); ok && math.IsNaN(n.magnitude()) {
			return v, errors.New("NaN has no order: leave it out with where")
		}
		if _, err := compareValues(v, v); err != nil {
			return v, fmt.Errorf("%s has no order", typeName(v))
		}
		return v, nil
	case totalSet:
		values := []bson.RawValue{v}
		if v.Type == bson.TypeArray {
			values = slices.DeleteFunc(valuesOf(v), func(v bson.RawValue) bool { return v.Type == bson.TypeNull })
		}
		slices.SortFunc(values, compareCanonical)
		return arrayOf(bson.RawValue{}, slices.CompactFunc(values, sameBytes)), nil
	}
	return v, nil
}

// valuesOf returns the elements of an array.
func valuesOf(array bson.RawValue) (values []bson.RawValue) {
	for _, v := range readFields(array.Value).all() {
		values = append(values, v)
	}
	return values
}
