package fold

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// View makes the documents of a view from its parts. A document has, in this order, the number
// of its parts, the fields of parts with keep: fields, the fields that hold parts under their
// aggregates' ids, and the totals:
//
//	{parts: 3, name: "Ann", orders: {"o-1": {...}, "o-2": {...}}, count: 2, openCents: 500}
//
// Fields, ids and totals are sorted, so the same parts always give the same bytes.
type View struct {
	// As and totals are sorted by name.
	As []string
	// Lists are those of As that are lists:
	//
	//	orders: [{aggregateId: "o-1", ...}, {aggregateId: "o-2", ...}]
	Lists  map[string]Order
	Totals []Total
	// Alone says that only the part of the aggregate whose id is the key gives fields.
	Alone bool
}

var _ model.View = (*View)(nil)

// Limits of a view document. Larger ones would slow down every write of a part, because the
// whole document is written with it.
const (
	MaxEmbedded      = 1000
	MaxEmbeddedBytes = 4 << 20
)

// errTooManyParts says that a document exceeds these limits.
var errTooManyParts = fmt.Errorf("the document would have more than %d parts in it, or more than %d bytes: leave out as, so that it has only the totals", MaxEmbedded, MaxEmbeddedBytes)

// errIncremental says that a document cannot be computed from the changes of its parts alone.
var errIncremental = errors.New("all parts are needed")

// Keys implements [model.View].
func (v *View) Keys(part bson.Raw) []string {
	var keys []string
	listed := map[string]bool{}
	for _, c := range contributionsOf(part, "") {
		if !listed[c.key] {
			keys, listed[c.key] = append(keys, c.key), true
		}
	}
	return keys
}

// Split implements [model.View].
func (v *View) Split(part bson.Raw) map[string]bson.Raw {
	type share struct {
		contributions []bson.RawValue
		// own says that the document has the part's own fields.
		own bool
	}
	shares := map[string]*share{}
	for _, c := range contributionsOf(part, "") {
		if shares[c.key] == nil {
			shares[c.key] = &share{}
		}
		s := shares[c.key]
		s.contributions = append(s.contributions, c.raw)
		s.own = s.own || c.whole()
	}
	split := make(map[string]bson.Raw, len(shares))
	for key, s := range shares {
		if len(shares) == 1 {
			split[key] = part
			break
		}
		own := EmptyDocument
		if s.own {
			own = part
		}
		split[key] = ReplaceField(own, model.FieldDocuments, ArrayOf(bson.RawValue{}, s.contributions))
	}
	return split
}

// Merge implements [model.View].
func (v *View) Merge(key string, document bson.Raw, changes []model.PartChange) (bson.Raw, bool, error) {
	d, err := v.read(document)
	if err == nil {
		for _, c := range changes {
			if err = d.change(c.AggregateID, held(c.Before, key), held(c.After, key)); err != nil {
				break
			}
		}
	}
	if errors.Is(err, errIncremental) {
		return nil, false, nil
	}
	next, err := d.encode(err)
	return next, err == nil, err
}

// Fullness implements [model.View].
func (v *View) Fullness(document bson.Raw) float64 {
	n, size := 0, 0
	for name, value := range ReadFields(document).All() {
		switch field := string(name); {
		case v.HasTotal(field):
			continue
		case slices.Contains(v.As, field):
			n += CountFields(value.Value)
		}
		size += len(name) + len(value.Value)
	}
	return max(float64(n)/MaxEmbedded, float64(size)/MaxEmbeddedBytes)
}

// The fields of an element of model.FieldDocuments, besides model.FieldKey.
const (
	ContributedAs      = "as"
	ContributedFields  = "fields"
	ContributedElement = "element"
	ContributedTotals  = "totals"
)

// contributed is one element of model.FieldDocuments.
type contributed struct {
	raw     bson.RawValue
	key, as string
	fields  bool
	element bson.RawValue
	totals  []byte
}

// whole reports whether the document has the part, not an element of it.
func (c *contributed) whole() bool { return !Present(c.element) && (c.fields || c.as != "") }

// contributionsOf returns what a part contributes to a document; to all if key is empty.
func contributionsOf(part bson.Raw, key string) (found []contributed) {
	documents, _ := Lookup(part, model.FieldDocuments)
contributions:
	for _, v := range ReadFields(documents.Value).All() {
		c := contributed{raw: v}
		for name, value := range ReadFields(v.Value).All() {
			switch string(name) {
			case model.FieldKey:
				if key != "" && !isText(value, key) {
					continue contributions
				}
				c.key, _ = value.StringValueOK()
			case ContributedAs:
				c.as, _ = value.StringValueOK()
			case ContributedFields:
				c.fields = true
			case ContributedElement:
				c.element = value
			case ContributedTotals:
				c.totals = value.Value
			}
		}
		found = append(found, c)
	}
	return found
}

// isText reports whether a value is that text, without a copy of it.
func isText(v bson.RawValue, text string) bool {
	const length = 4
	return v.Type == bson.TypeString && len(v.Value) == length+len(text)+1 && string(v.Value[length:length+len(text)]) == text
}

// heldPart is what one part contributes to one document.
type heldPart struct {
	contributions []contributed
	// fields are the fields that the document gets; nil if none.
	fields []byte
	// as is the field that has the part, and value the part or an array of its elements.
	as    string
	value bson.RawValue
}

func held(part bson.Raw, key string) heldPart {
	h := heldPart{contributions: contributionsOf(part, key)}
	var elements []bson.RawValue
	for _, c := range h.contributions {
		whole := c.element
		if c.whole() {
			whole = bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: WithoutDocuments(part)}
		}
		switch {
		case c.fields && h.fields == nil:
			h.fields = whole.Value
		case c.as == "":
		case Present(c.element):
			h.as, elements = c.as, append(elements, whole)
		default:
			h.as, h.value = c.as, whole
		}
	}
	if elements != nil {
		h.value = ArrayOf(bson.RawValue{}, elements)
	}
	return h
}

// WithoutDocuments returns a part without the list of its documents; nil for no part.
func WithoutDocuments(part bson.Raw) bson.Raw {
	if part == nil {
		return nil
	}
	return ReplaceField(part, model.FieldDocuments, bson.RawValue{})
}

// viewDocument is a document of a view in its components.
type viewDocument struct {
	view  *View
	parts int64
	// fields are elements of BSON, and taken the names of those that were added.
	fields []byte
	taken  map[string]bool
	// embedded are the parts in each field of view.as, sorted by aggregate unless it is a list.
	embedded map[string][]embeddedPart
	// totals are absent if no part adds to them.
	totals map[string]bson.RawValue
}

// embeddedPart is a part, or an element of a list, which begins with the id of its aggregate. by is the
// value by which the list is sorted; absent if it has none.
type embeddedPart struct {
	aggregateID string
	value, by   bson.RawValue
}

// read takes a document apart. nil is a document without parts.
func (v *View) read(document bson.Raw) (*viewDocument, error) {
	d := &viewDocument{view: v, embedded: map[string][]embeddedPart{}, totals: map[string]bson.RawValue{}}
	for name, value := range ReadFields(document).All() {
		switch field := string(name); {
		case field == model.FieldParts:
			d.parts, _ = value.AsInt64OK()
		case slices.Contains(v.As, field):
			_, list := v.Lists[field]
			switch {
			case list && d.readList(field, value):
				continue
			case list || value.Type != bson.TypeEmbeddedDocument:
				return d, errIncremental // somebody has changed it
			}
			for id, part := range ReadFields(value.Value).All() {
				d.embedded[field] = append(d.embedded[field], embeddedPart{aggregateID: string(id), value: part})
			}
		case v.HasTotal(field):
			d.totals[field] = value
		default:
			d.fields = AppendField(d.fields, field, value)
		}
	}
	return d, nil
}

// OwnField reports whether a document has a field of this name that no part gives.
func (v *View) OwnField(name string) bool {
	return name == model.FieldParts || slices.Contains(v.As, name) || v.HasTotal(name)
}

// CheckGiven refuses an element whose fields a document cannot have as its own.
func (v *View) CheckGiven(element []byte) error {
	for name := range ReadFields(element).All() {
		field := string(name)
		if v.OwnField(field) || model.EngineOwned(field) {
			return fmt.Errorf("its field %s is also one of the document's own: give each elements without it, such as state.lines.map(l, {'sku': l.sku})", field)
		}
		if err := Updatable(field); err != nil {
			return err
		}
	}
	return nil
}

// HasTotal reports whether the view has a total of this name.
func (v *View) HasTotal(name string) bool {
	return slices.ContainsFunc(v.Totals, func(t Total) bool { return t.Name == name })
}

// change replaces what a part contributes.
func (d *viewDocument) change(aggregateID string, before, after heldPart) error {
	d.parts += min(1, int64(len(after.contributions))) - min(1, int64(len(before.contributions)))
	switch {
	case bytes.Equal(before.fields, after.fields):
	case d.fields == nil && before.fields == nil:
		d.addFields(after.fields)
	case d.view.Alone:
		d.fields, d.taken = nil, nil
		d.addFields(after.fields)
	default:
		return errIncremental // other parts may have the same fields
	}
	if before.as != "" && before.as != after.as {
		if err := d.embed(before.as, aggregateID, bson.RawValue{}); err != nil {
			return err
		}
	}
	if after.as != "" {
		if err := d.embed(after.as, aggregateID, after.value); err != nil {
			return err
		}
	}
	for _, t := range d.view.Totals {
		removed, added := before.values(t), after.values(t)
		if err := d.changeTotal(t, removed, added); err != nil {
			return err
		}
	}
	return nil
}

func (d *viewDocument) changeTotal(t Total, removed, added []bson.RawValue) error {
	if slices.EqualFunc(removed, added, SameBytes) {
		return nil
	}
	next, err := t.change(d.totals[t.Name], removed, added)
	if err != nil {
		return err
	}
	d.totals[t.Name] = next
	return nil
}

// addFields adds the fields of a part. If several parts have a field, that of the first one
// counts.
func (d *viewDocument) addFields(fields []byte) {
	for name, value := range ReadFields(fields).All() {
		if d.taken[string(name)] {
			continue
		}
		if d.taken == nil {
			d.taken = map[string]bool{}
		}
		d.taken[string(name)] = true
		d.fields = AppendField(d.fields, string(name), value)
	}
}

// embed stores a part under its aggregate's id, or in a list; an absent value removes it.
func (d *viewDocument) embed(field, aggregateID string, value bson.RawValue) error {
	if _, list := d.view.Lists[field]; list {
		d.list(field, aggregateID, value)
		return nil
	}
	if strings.IndexByte(aggregateID, 0) >= 0 {
		return fmt.Errorf("the aggregateId %q has a NUL, which a name of a field cannot have: leave out as", aggregateID)
	}
	parts := d.embedded[field]
	i, found := slices.BinarySearchFunc(parts, aggregateID, func(p embeddedPart, id string) int { return strings.Compare(p.aggregateID, id) })
	switch {
	case found && Present(value):
		parts[i].value = value
	case found:
		parts = slices.Delete(parts, i, i+1)
	case Present(value):
		parts = slices.Insert(parts, i, embeddedPart{aggregateID: aggregateID, value: value})
	}
	d.embedded[field] = parts
	return nil
}

// values returns what the part adds to a total.
func (h *heldPart) values(t Total) (found []bson.RawValue) {
	for i := range h.contributions {
		v, ok := Lookup(h.contributions[i].totals, t.Name)
		switch {
		case ok && t.Kind == TotalSet:
			found = append(found, ValuesOf(v)...)
		case ok:
			found = append(found, v)
		}
	}
	return found
}

// encode returns the document; nil if no part is left.
func (d *viewDocument) encode(err error) (bson.Raw, error) {
	if err != nil || d.parts == 0 {
		return nil, err
	}
	n, size := 0, len(d.fields)
	for _, field := range d.view.As {
		n += len(d.embedded[field])
		for _, p := range d.embedded[field] {
			size += len(p.value.Value)
		}
	}
	if n > MaxEmbedded || size > MaxEmbeddedBytes {
		return nil, errTooManyParts
	}
	start, dst := bsoncore.AppendDocumentStart(make([]byte, 0, size+size/8))
	dst = bsoncore.AppendInt64Element(dst, model.FieldParts, d.parts)
	dst = append(dst, d.fields...)
	for _, field := range d.view.As {
		if order, list := d.view.Lists[field]; list {
			if dst, err = appendList(dst, field, order, d.embedded[field]); err != nil {
				return nil, err
			}
			continue
		}
		inner, next := bsoncore.AppendDocumentElementStart(dst, field)
		for _, p := range d.embedded[field] {
			next = AppendField(next, p.aggregateID, p.value)
		}
		dst = FinishDocument(next, inner)
	}
	if len(dst) > MaxEmbeddedBytes {
		return nil, errTooManyParts
	}
	for _, t := range d.view.Totals {
		value := d.totals[t.Name]
		if !Present(value) {
			switch {
			case t.ByKey:
				value = bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: EmptyDocument}
			case t.Kind.Adds():
				value = IntegerValue(0)
			case t.Kind == TotalSet:
				value = bson.RawValue{Type: bson.TypeArray, Value: EmptyDocument}
			default:
				continue
			}
		}
		dst = AppendField(dst, t.Name, value)
	}
	return FinishDocument(dst, start), nil
}

// Contributions returns, by the key of each document, the values that a part adds to totals, and the
// elements of the part. If several elements add to one field, the field has an array of their values.
func Contributions(part bson.Raw) map[string]bson.Raw {
	all := map[string]map[string][]bson.RawValue{}
	for _, c := range contributionsOf(part, "") {
		fields := all[c.key]
		if fields == nil {
			fields = map[string][]bson.RawValue{}
			all[c.key] = fields
		}
		given := [][]byte{c.totals}
		switch {
		case !Present(c.element):
		case c.fields:
			given = append(given, c.element.Value)
		default:
			fields[c.as] = append(fields[c.as], c.element)
		}
		for _, of := range given {
			for name, value := range ReadFields(of).All() {
				fields[string(name)] = append(fields[string(name)], value)
			}
		}
	}
	found := make(map[string]bson.Raw, len(all))
	for key, fields := range all {
		start, dst := bsoncore.AppendDocumentStart(nil)
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			value := fields[name][0]
			if len(fields[name]) > 1 {
				value = ArrayOf(bson.RawValue{}, fields[name])
			}
			dst = AppendField(dst, name, value)
		}
		found[key] = FinishDocument(dst, start)
	}
	return found
}
