package memory

import (
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// field is one field of a document.
type field struct {
	name  string
	value bson.RawValue
}

// fields is a document during a change. Its fields keep their order.
type fields []field

func fieldsOf(document bson.Raw) (fields, error) {
	elements, err := document.Elements()
	if err != nil {
		return nil, fmt.Errorf("read a document: %w", err)
	}
	found := make(fields, len(elements))
	for i, e := range elements {
		found[i] = field{e.Key(), e.Value()}
	}
	return found, nil
}

func (f fields) index(name string) int {
	for i := range f {
		if f[i].name == name {
			return i
		}
	}
	return -1
}

// within applies do inside the nested document to which a path with a dot leads.
func (f *fields) within(path string, do func(inner *fields, name string) error) error {
	name, rest, _ := strings.Cut(path, ".")
	at := f.index(name)
	if at < 0 || (*f)[at].value.Type != bson.TypeEmbeddedDocument {
		return fmt.Errorf("update %s: %s is not a document", path, name)
	}
	inner, err := fieldsOf((*f)[at].value.Document())
	if err != nil {
		return err
	}
	if err := do(&inner, rest); err != nil {
		return err
	}
	raw, err := inner.raw()
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	(*f)[at].value = bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: raw}
	return nil
}

// set stores a value. A path with a dot leads into a document.
func (f *fields) set(name string, value any) error {
	if strings.Contains(name, ".") {
		return f.within(name, func(inner *fields, name string) error { return inner.set(name, value) })
	}
	raw, ok := value.(bson.RawValue)
	if !ok {
		kind, data, err := bson.MarshalValue(value)
		if err != nil {
			return fmt.Errorf("encode %s: %w", name, err)
		}
		raw = bson.RawValue{Type: kind, Value: data}
	}
	if i := f.index(name); i >= 0 {
		(*f)[i].value = raw
	} else {
		*f = append(*f, field{name, raw})
	}
	return nil
}

// unset removes a field. A path with a dot leads into a document.
func (f *fields) unset(name string) error {
	if strings.Contains(name, ".") {
		return f.within(name, (*fields).unset)
	}
	if i := f.index(name); i >= 0 {
		*f = append((*f)[:i], (*f)[i+1:]...)
	}
	return nil
}

// push appends the values of {$each: […]} to an array. An absent array counts as empty.
func (f *fields) push(name string, each bson.RawValue) error {
	var values []bson.RawValue
	sources := []bson.RawValue{each.Document().Lookup("$each")}
	if i := f.index(name); i >= 0 {
		sources = append([]bson.RawValue{(*f)[i].value}, sources...)
	}
	for _, source := range sources {
		array, ok := source.ArrayOK()
		if !ok {
			return fmt.Errorf("push to %s, which is a %s and not an array", name, source.Type)
		}
		more, err := array.Values()
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		values = append(values, more...)
	}
	return f.set(name, values)
}

func (f fields) raw() (bson.Raw, error) {
	d := make(bson.D, len(f))
	for i := range f {
		d[i] = bson.E{Key: f[i].name, Value: f[i].value}
	}
	return bson.Marshal(d)
}

// created returns the whole document that a write creates, with its own fields: of the
// aggregate, or of a view. It has no lastUpdatedAt, so that a case has the same result at any
// time.
func created(w *model.Write, id string, own bson.Raw) (bson.Raw, error) {
	f := fields{}
	if err := f.set(model.FieldID, id); err != nil {
		return nil, err
	}
	if !w.Parts {
		if err := f.set(model.FieldLastEventID, w.To); err != nil {
			return nil, err
		}
	}
	if later := w.Later(); later > 0 {
		if err := f.set(model.FieldLastGeneration, later); err != nil {
			return nil, err
		}
	}
	more, err := fieldsOf(own)
	if err != nil {
		return nil, err
	}
	return append(f, more...).raw()
}

// ownFields returns a document without the fields of the engine; nil for no document.
func ownFields(document bson.Raw) (bson.Raw, error) {
	if document == nil {
		return nil, nil
	}
	f, err := fieldsOf(document)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(f, func(f field) bool { return model.EngineOwned(f.name) }).raw()
}

// updated returns a document after $set, $unset and $push as in [model.Write], with its
// new watermark. The update may be nil.
func updated(document, update bson.Raw, to int64) (bson.Raw, error) {
	f, err := fieldsOf(document)
	if err != nil {
		return nil, err
	}
	if err := f.set(model.FieldLastEventID, to); err != nil {
		return nil, err
	}
	var operators fields
	if update != nil {
		if operators, err = fieldsOf(update); err != nil {
			return nil, err
		}
	}
	for _, operator := range operators {
		operands, err := fieldsOf(operator.value.Document())
		if err != nil {
			return nil, err
		}
		for _, o := range operands {
			switch operator.name {
			case "$set":
				err = f.set(o.name, o.value)
			case "$unset":
				err = f.unset(o.name)
			case "$push":
				err = f.push(o.name, o.value)
			default:
				err = fmt.Errorf("unknown operator %s", operator.name)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return f.raw()
}
