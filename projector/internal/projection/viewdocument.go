package projection

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// view makes the documents of a view from its parts. A document has, in this order, the number
// of its parts, the fields of parts with keep: fields, the fields that hold parts under their
// aggregates' ids, and the totals:
//
//	{parts: 3, name: "Ann", orders: {"o-1": {...}, "o-2": {...}}, count: 2, openCents: 500}
//
// Fields, ids and totals are sorted, so the same parts always give the same bytes.
type view struct {
	// as and totals are sorted by name.
	as     []string
	totals []total
	// alone says that only the part of the aggregate whose id is the key gives fields.
	alone bool
}

var _ model.View = (*view)(nil)

// Limits of a view document. Larger ones would slow down every write of a part, because the
// whole document is written with it.
const (
	maxEmbedded      = 1000
	maxEmbeddedBytes = 4 << 20
)

// errTooManyParts says that a document exceeds these limits.
var errTooManyParts = fmt.Errorf("the document would have more than %d parts in it, or more than %d bytes: leave out as, so that it has only the totals", maxEmbedded, maxEmbeddedBytes)

// errIncremental says that a document cannot be computed from the changes of its parts alone.
var errIncremental = errors.New("all parts are needed")

// Keys implements [model.View].
func (v *view) Keys(part bson.Raw) []string {
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
func (v *view) Split(part bson.Raw) map[string]bson.Raw {
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
		own := emptyDocument
		if s.own {
			own = part
		}
		split[key] = replaceField(own, model.FieldDocuments, arrayOf(bson.RawValue{}, s.contributions))
	}
	return split
}

// Merge implements [model.View].
func (v *view) Merge(key string, document bson.Raw, changes []model.PartChange) (bson.Raw, bool, error) {
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
func (v *view) Fullness(document bson.Raw) float64 {
	n, size := 0, 0
	for name, value := range readFields(document).all() {
		switch field := string(name); {
		case v.hasTotal(field):
			continue
		case slices.Contains(v.as, field):
			n += countFields(value.Value)
		}
		size += len(name) + len(value.Value)
	}
	return max(float64(n)/maxEmbedded, float64(size)/maxEmbeddedBytes)
}

// contributed is one element of model.FieldDocuments.
type contributed struct {
	raw     bson.RawValue
	key, as string
	fields  bool
	element bson.RawValue
	totals  []byte
}

// whole reports whether the document has the part, not an element of it.
func (c *contributed) whole() bool { return !present(c.element) && (c.fields || c.as != "") }

// contributionsOf returns what a part contributes to a document; to all if key is empty.
func contributionsOf(part bson.Raw, key string) (found []contributed) {
	documents, _ := lookup(part, model.FieldDocuments)
contributions:
	for _, v := range readFields(documents.Value).all() {
		c := contributed{raw: v}
		for name, value := range readFields(v.Value).all() {
			switch string(name) {
			case model.FieldKey:
				if key != "" && !isText(value, key) {
					continue contributions
				}
				c.key, _ = value.StringValueOK()
			case contributedAs:
				c.as, _ = value.StringValueOK()
			case contributedFields:
				c.fields = true
			case contributedElement:
				c.element = value
			case contributedTotals:
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
			whole = bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: ownFields(part)}
		}
		switch {
		case c.fields && h.fields == nil:
			h.fields = whole.Value
		case c.as == "":
		case present(c.element):
			h.as, elements = c.as, append(elements, whole)
		default:
			h.as, h.value = c.as, whole
		}
	}
	if elements != nil {
		h.value = arrayOf(bson.RawValue{}, elements)
	}
	return h
}

// ownFields returns a part without the list of its documents.
func ownFields(part bson.Raw) []byte {
	start, dst := bsoncore.AppendDocumentStart(make([]byte, 0, len(part)))
	for name, value := range readFields(part).all() {
		if string(name) != model.FieldDocuments {
			dst = appendField(dst, string(name), value)
		}
	}
	return finishDocument(dst, start)
}

// viewDocument is a document of a view in its components.
type viewDocument struct {
	view  *view
	parts int64
	// fields are elements of BSON, and taken the names of those that were added.
	fields []byte
	taken  map[string]bool
	// embedded are the parts in each field of view.as, sorted by aggregate.
	embedded map[string][]embeddedPart
	// totals are absent if no part adds to them.
	totals map[string]bson.RawValue
}

type embeddedPart struct {
	aggregateID string
	value       bson.RawValue
}

// read takes a document apart. nil is a document without parts.
func (v *view) read(document bson.Raw) (*viewDocument, error) {
	d := &viewDocument{view: v, embedded: map[string][]embeddedPart{}, totals: map[string]bson.RawValue{}}
	for name, value := range readFields(document).all() {
		switch field := string(name); {
		case field == model.FieldParts:
			d.parts, _ = value.AsInt64OK()
		case slices.Contains(v.as, field):
			if value.Type != bson.TypeEmbeddedDocument {
				return d, errIncremental // somebody has changed it
			}
			for id, part := range readFields(value.Value).all() {
				d.embedded[field] = append(d.embedded[field], embeddedPart{string(id), part})
			}
		case v.hasTotal(field):
			d.totals[field] = value
		default:
			d.fields = appendField(d.fields, field, value)
		}
	}
	return d, nil
}

// ownField reports whether a document has a field of this name that no part gives.
func (v *view) ownField(name string) bool {
	return name == model.FieldParts || slices.Contains(v.as, name) || v.hasTotal(name)
}

// takes reports whether a part of a source must not have a field of this name.
func (v *view) takes(from *source, name string) bool {
	return name == model.FieldDocuments || from.contribution.fields && v.ownField(name)
}

// checkGiven refuses an element whose fields a document cannot have as its own.
func (v *view) checkGiven(element []byte) error {
	for name := range readFields(element).all() {
		field := string(name)
		if v.ownField(field) || model.EngineOwned(field) {
			return fmt.Errorf("its field %s is also one of the document's own: give each elements without it, such as state.lines.map(l, {'sku': l.sku})", field)
		}
		if err := updatable(field); err != nil {
			return err
		}
	}
	return nil
}

func (v *view) hasTotal(name string) bool {
	return slices.ContainsFunc(v.totals, func(t total) bool { return t.name == name })
}

// change replaces what a part contributes.
func (d *viewDocument) change(aggregateID string, before, after heldPart) error {
	d.parts += min(1, int64(len(after.contributions))) - min(1, int64(len(before.contributions)))
	switch {
	case bytes.Equal(before.fields, after.fields):
	case d.fields == nil && before.fields == nil:
		d.addFields(after.fields)
	case d.view.alone:
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
	for _, t := range d.view.totals {
		removed, added := before.values(t), after.values(t)
		if err := d.changeTotal(t, removed, added); err != nil {
			return err
		}
	}
	return nil
}

func (d *viewDocument) changeTotal(t total, removed, added []bson.RawValue) error {
	if slices.EqualFunc(removed, added, sameBytes) {
		return nil
	}
	next, err := t.change(d.totals[t.name], removed, added)
	if err != nil {
		return fmt.Errorf("total %s: %w", t.name, err)
	}
	d.totals[t.name] = next
	return nil
}

// addFields adds the fields of a part. If several parts have a field, that of the first one
// counts.
func (d *viewDocument) addFields(fields []byte) {
	for name, value := range readFields(fields).all() {
		if d.taken[string(name)] {
			continue
		}
		if d.taken == nil {
			d.taken = map[string]bool{}
		}
		d.taken[string(name)] = true
		d.fields = appendField(d.fields, string(name), value)
	}
}

// embed stores a part under its aggregate's id; an absent value removes it.
func (d *viewDocument) embed(field, aggregateID string, value bson.RawValue) error {
	if strings.IndexByte(aggregateID, 0) >= 0 {
		return fmt.Errorf("the aggregateId %q has a NUL, which a name of a field cannot have: leave out as", aggregateID)
	}
	parts := d.embedded[field]
	i, found := slices.BinarySearchFunc(parts, aggregateID, func(p embeddedPart, id string) int { return strings.Compare(p.aggregateID, id) })
	switch {
	case found && present(value):
		parts[i].value = value
	case found:
		parts = slices.Delete(parts, i, i+1)
	case present(value):
		parts = slices.Insert(parts, i, embeddedPart{aggregateID, value})
	}
	d.embedded[field] = parts
	return nil
}

// values returns what the part adds to a total.
func (h *heldPart) values(t total) (found []bson.RawValue) {
	for i := range h.contributions {
		v, ok := lookup(h.contributions[i].totals, t.name)
		switch {
		case ok && t.kind == totalSet:
			found = append(found, valuesOf(v)...)
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
	for _, field := range d.view.as {
		n += len(d.embedded[field])
		for _, p := range d.embedded[field] {
			size += len(p.aggregateID) + len(p.value.Value)
		}
	}
	if n > maxEmbedded || size > maxEmbeddedBytes {
		return nil, errTooManyParts
	}
	start, dst := bsoncore.AppendDocumentStart(make([]byte, 0, size+size/8))
	dst = bsoncore.AppendInt64Element(dst, model.FieldParts, d.parts)
	dst = append(dst, d.fields...)
	for _, field := range d.view.as {
		inner, next := bsoncore.AppendDocumentElementStart(dst, field)
		for _, p := range d.embedded[field] {
			next = appendField(next, p.aggregateID, p.value)
		}
		dst = finishDocument(next, inner)
	}
	if len(dst) > maxEmbeddedBytes {
		return nil, errTooManyParts
	}
	for _, t := range d.view.totals {
		value := d.totals[t.name]
		if !present(value) {
			switch t.kind {
			case totalSum, totalCount:
				value = integerValue(0)
			case totalSet:
				value = bson.RawValue{Type: bson.TypeArray, Value: emptyDocument}
			default:
				continue
			}
		}
		dst = appendField(dst, t.name, value)
	}
	return finishDocument(dst, start), nil
}

// Contributions returns what a part adds to the totals of each document, by the document's key.
// A total to which several elements add has their values in an array.
func Contributions(part State) map[string]State {
	all := map[string]map[string][]bson.RawValue{}
	for _, c := range contributionsOf(part, "") {
		if all[c.key] == nil {
			all[c.key] = map[string][]bson.RawValue{}
		}
		for name, value := range readFields(c.totals).all() {
			all[c.key][string(name)] = append(all[c.key][string(name)], value)
		}
	}
	found := make(map[string]State, len(all))
	for key, totals := range all {
		start, dst := bsoncore.AppendDocumentStart(nil)
		for _, name := range sortedKeys(totals) {
			value := totals[name][0]
			if len(totals[name]) > 1 {
				value = arrayOf(bson.RawValue{}, totals[name])
			}
			dst = appendField(dst, name, value)
		}
		found[key] = finishDocument(dst, start)
	}
	return found
}

// WithoutDocuments returns a part without the list of its documents; nil for no part.
func WithoutDocuments(part State) State {
	if part == nil {
		return nil
	}
	return ownFields(part)
}
