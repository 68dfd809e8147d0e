package fold

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Order is the order of a list, as a definition declares it: by a field, elements without it or
// with null first, and then by the ids of their aggregates. A - before the field reverses the order
// of the field alone. The zero value orders by ids.
type Order string

// Field is the field without the -.
func (o Order) Field() string { return strings.TrimPrefix(string(o), "-") }

// FieldAggregateID is the field of an element of a list that has the id of its aggregate.
const FieldAggregateID = "aggregateId"

// readList takes a list apart; false if somebody has changed it.
func (d *viewDocument) readList(field string, list bson.RawValue) bool {
	if list.Type != bson.TypeArray {
		return false
	}
	for _, element := range ReadFields(list.Value).All() {
		if element.Type != bson.TypeEmbeddedDocument {
			return false
		}
		id, _ := Lookup(element.Value, FieldAggregateID)
		text, ok := id.StringValueOK()
		if !ok {
			return false
		}
		d.embedded[field] = append(d.embedded[field], embeddedPart{aggregateID: text, value: element})
	}
	return true
}

// list replaces the elements of an aggregate by a part, or by an array of a part's elements; an absent
// value removes them.
func (d *viewDocument) list(field, aggregateID string, value bson.RawValue) {
	elements := []bson.RawValue{value}
	if value.Type != bson.TypeEmbeddedDocument {
		elements = ValuesOf(value)
	}
	all := slices.DeleteFunc(d.embedded[field], func(l embeddedPart) bool { return l.aggregateID == aggregateID })
	for _, element := range elements {
		start, dst := bsoncore.AppendDocumentStart(make([]byte, 0, len(element.Value)+len(FieldAggregateID)+len(aggregateID)+8))
		dst = bsoncore.AppendStringElement(dst, FieldAggregateID, aggregateID)
		dst = FinishDocument(append(dst, element.Value[4:len(element.Value)-1]...), start)
		all = append(all, embeddedPart{aggregateID: aggregateID, value: bson.RawValue{Type: element.Type, Value: dst}})
	}
	d.embedded[field] = all
}

// appendList appends a list in its order. Elements of one aggregate stay in the order in which they
// are.
func appendList(dst []byte, field string, order Order, all []embeddedPart) ([]byte, error) {
	var first *embeddedPart
	by := order.Field()
	for i := range all {
		l := &all[i]
		value, ok := Lookup(l.value.Value, by)
		if by == "" || !ok || value.Type == bson.TypeNull {
			continue
		}
		if l.by = value; first == nil {
			first = l
		}
		if _, err := CompareValues(first.by, value); err != nil {
			are := fmt.Sprintf("%s in %s and %s in %s, which have no common order", TypeName(first.by), first.aggregateID, TypeName(value), l.aggregateID)
			if first.by.Type == value.Type {
				are = fmt.Sprintf("%s in %s, which has no order", TypeName(value), l.aggregateID)
			} else if first.aggregateID == l.aggregateID {
				are = fmt.Sprintf("%s and %s in elements of %s, which have no common order", TypeName(first.by), TypeName(value), l.aggregateID)
			}
			return dst, fmt.Errorf("list %s: %s is %s: convert the values, or leave out sort", field, by, are)
		}
	}
	slices.SortStableFunc(all, func(a, b embeddedPart) int {
		return cmp.Or(order.compare(a.by, b.by), strings.Compare(a.aggregateID, b.aggregateID))
	})
	inner, dst := bsoncore.AppendArrayElementStart(dst, field)
	for i := range all {
		dst = append(AppendIndex(append(dst, byte(bson.TypeEmbeddedDocument)), i), 0)
		dst = append(dst, all[i].value.Value...)
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
	if len(o.Field()) < len(o) {
		return -c
	}
	return c
}
