package fold

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Order is the order of a list: by a field, elements without it or with null first, and then by
// the ids of their aggregates. Descending reverses the order of the field alone. The zero value
// orders by ids.
type Order struct {
	Field      string
	Descending bool
}

// FieldAggregateID is the field of an element of a list that has the id of its aggregate.
const FieldAggregateID = "aggregateId"

// readList takes a list apart; false if somebody has changed it.
func (d *viewDocument) readList(field string, list bson.RawValue) bool {
	if list.Type != bson.TypeArray {
		return false
	}
	elements := map[string][]bson.RawValue{}
	for _, element := range ValuesOf(list) {
		if element.Type != bson.TypeEmbeddedDocument {
			return false
		}
		id, _ := Lookup(element.Value, FieldAggregateID)
		text, ok := id.StringValueOK()
		if !ok {
			return false
		}
		elements[text] = append(elements[text], bson.RawValue{Type: element.Type, Value: without(element.Value, FieldAggregateID)})
	}
	for _, id := range slices.Sorted(maps.Keys(elements)) {
		d.embedded[field] = append(d.embedded[field], embeddedPart{id, ArrayOf(bson.RawValue{}, elements[id])})
	}
	return true
}

// listed is an element of a list, with the value by which it is sorted; absent if it has none.
type listed struct {
	aggregateID string
	element, by bson.RawValue
}

// appendList appends a list of the elements of all parts, which are sorted by the ids of their
// aggregates.
func appendList(dst []byte, field string, order Order, parts []embeddedPart) ([]byte, error) {
	var all []listed
	var first *listed
	for _, p := range parts {
		for _, element := range ValuesOf(p.value) {
			l := listed{p.aggregateID, element, bson.RawValue{}}
			if value, ok := Lookup(element.Value, order.Field); ok && value.Type != bson.TypeNull {
				l.by = value
				if first == nil {
					first = &l
				}
				if _, err := CompareValues(first.by, value); err != nil {
					return dst, fmt.Errorf("list %s: %s is %s in %s and %s in %s, which have no common order: convert the values, or leave out sort",
						field, order.Field, TypeName(first.by), first.aggregateID, TypeName(value), l.aggregateID)
				}
			}
			all = append(all, l)
		}
	}
	slices.SortStableFunc(all, func(a, b listed) int { return order.compare(a.by, b.by) })
	inner, dst := bsoncore.AppendArrayElementStart(dst, field)
	for i, l := range all {
		dst = AppendIndex(append(dst, byte(bson.TypeEmbeddedDocument)), i)
		var start int32
		start, dst = bsoncore.AppendDocumentStart(append(dst, 0))
		dst = bsoncore.AppendStringElement(dst, FieldAggregateID, l.aggregateID)
		content := l.element.Value
		dst = FinishDocument(append(dst, content[4:len(content)-1]...), start)
	}
	return FinishDocument(dst, inner), nil
}

func (o Order) compare(a, b bson.RawValue) int {
	var c int
	switch {
	case Present(a) && Present(b):
		c, _ = CompareValues(a, b)
	case Present(a):
		c = 1
	case Present(b):
		c = -1
	}
	if o.Descending {
		return -c
	}
	return c
}

// String is the order as a definition declares it.
func (o Order) String() string {
	if o.Descending {
		return "-" + o.Field
	}
	return o.Field
}

// OrderOf reads an order that a definition declares.
func OrderOf(text string) Order {
	field, descending := strings.CutPrefix(text, "-")
	return Order{Field: field, Descending: descending}
}
