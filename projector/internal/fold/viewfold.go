package fold

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Begin implements [model.View].
func (v *View) Begin(key string) model.ViewFold {
	d, _ := v.read(nil)
	f := &viewFold{viewDocument: d, key: key, given: map[string]givenField{}, sums: map[string]sums{}, sets: map[string]map[string]bool{}}
	for _, t := range v.Totals {
		if t.Kind.Adds() {
			f.sums[t.Name] = sums{}
		} else if t.Kind == TotalSet {
			f.sets[t.Name] = map[string]bool{}
		}
	}
	return f
}

// viewFold makes a document of all its parts.
type viewFold struct {
	*viewDocument
	key string
	// given are the fields that parts give to the document, by name, each of the first part that
	// has it.
	given map[string]givenField
	sums  map[string]sums
	// sets are the values of totals, each as its type and its bytes.
	sets map[string]map[string]bool
}

// givenField is a field of a part, and its position there.
type givenField struct {
	aggregateID string
	at          int
	value       bson.RawValue
}

// Add implements [model.ViewFold].
func (f *viewFold) Add(p model.Part) error {
	h := held(p.Document, f.key)
	if len(h.contributions) == 0 {
		return nil
	}
	f.parts++
	f.give(p.AggregateID, h.fields)
	if h.as != "" {
		if err := f.embed(h.as, p.AggregateID, h.value); err != nil {
			return err
		}
		if len(f.embedded[h.as]) > MaxEmbedded {
			return errTooManyParts
		}
	}
	for _, t := range f.view.Totals {
		added := h.values(t)
		switch {
		case t.Kind.Adds():
			if err := t.sum(f.sums[t.Name], added, 1); err != nil {
				return fmt.Errorf("total %s: %w", t.Name, err)
			}
		case t.Kind == TotalSet:
			for _, v := range added {
				f.sets[t.Name][string([]byte{byte(v.Type)})+string(v.Value)] = true
			}
		default:
			if err := f.changeTotal(t, nil, added); err != nil {
				return fmt.Errorf("total %s: the parts of the document have values without a common order, such as a text and a date: convert them, or leave some out with where", t.Name)
			}
		}
	}
	return nil
}

// give takes those fields of a part that no part before it in the order of ids has. So the memory
// does not grow with the parts.
func (f *viewFold) give(aggregateID string, fields []byte) {
	at := 0
	for name, value := range ReadFields(fields).All() {
		if g, given := f.given[string(name)]; !given || aggregateID < g.aggregateID {
			value.Value = bytes.Clone(value.Value) // not the whole part
			f.given[string(name)] = givenField{aggregateID, at, value}
		}
		at++
	}
}

// Document implements [model.ViewFold].
func (f *viewFold) Document() (bson.Raw, error) {
	for _, name := range slices.SortedFunc(maps.Keys(f.given), func(a, b string) int {
		return cmp.Or(strings.Compare(f.given[a].aggregateID, f.given[b].aggregateID), cmp.Compare(f.given[a].at, f.given[b].at))
	}) {
		f.fields = AppendField(f.fields, name, f.given[name].value)
	}
	for _, t := range f.view.Totals {
		var err error
		if t.ByKey {
			f.totals[t.Name], err = t.withKeys(nil, f.sums[t.Name])
		} else if sum := f.sums[t.Name][""]; sum != nil {
			f.totals[t.Name], err = sum.value()
		}
		if err != nil {
			return nil, fmt.Errorf("total %s: %w", t.Name, err)
		}
	}
	for name, set := range f.sets {
		values := make([]bson.RawValue, 0, len(set))
		for v := range set {
			values = append(values, bson.RawValue{Type: bson.Type(v[0]), Value: []byte(v[1:])})
		}
		slices.SortFunc(values, CompareCanonical)
		f.totals[name] = ArrayOf(bson.RawValue{}, values)
	}
	return f.encode(nil)
}
