package testcase

import (
	"cmp"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// Difference is a difference between an expected value and the actual one.
type Difference struct {
	// Path is the path of the value, such as lines[2].sku. It is empty for the whole
	// document.
	Path          string
	Expected, Got string
}

const nothing = "nothing"

// differences compares values: numbers by value, and fields in any order. Unless exact, a
// document may have further fields. A value whose Type is 0 is absent.
func differences(path string, want, got bson.RawValue, exact bool) []Difference {
	wantDocument, isDocument := want.DocumentOK()
	if gotDocument, ok := got.DocumentOK(); ok && isDocument {
		return documentDifferences(path, wantDocument, gotDocument, exact)
	}
	wantArray, isArray := arrayOf(want)
	if gotArray, ok := arrayOf(got); ok && isArray {
		return arrayDifferences(path, wantArray, gotArray, exact)
	}
	if equal(want, got) {
		return nil
	}
	d := Difference{Path: path, Expected: show(want), Got: show(got)}
	bothThere, bothNumbers := want.Type != 0 && got.Type != 0, isNumber(want) && isNumber(got)
	if bothThere && want.Type != got.Type && !bothNumbers {
		d.Expected += " (" + fold.TypeName(want) + ")"
		d.Got += " (" + fold.TypeName(got) + ")"
	}
	return []Difference{d}
}

func arrayOf(v bson.RawValue) ([]bson.RawValue, bool) {
	array, ok := v.ArrayOK()
	if !ok {
		return nil, false
	}
	values, err := array.Values()
	return values, err == nil
}

// elementsOf returns the fields of a valid document, or none of an absent one.
func elementsOf(document bson.Raw) []bson.RawElement {
	elements, _ := document.Elements()
	return elements
}

func documentDifferences(path string, want, got bson.Raw, exact bool) (found []Difference) {
	for _, f := range elementsOf(want) {
		found = append(found, differences(join(path, f.Key()), f.Value(), got.Lookup(f.Key()), exact)...)
	}
	if !exact {
		return found
	}
	for _, f := range elementsOf(got) {
		if want.Lookup(f.Key()).Type == 0 {
			found = append(found, Difference{Path: join(path, f.Key()), Expected: nothing, Got: show(f.Value())})
		}
	}
	return found
}

func arrayDifferences(path string, want, got []bson.RawValue, exact bool) (found []Difference) {
	for i := range max(len(want), len(got)) {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case i >= len(want):
			found = append(found, Difference{Path: at, Expected: nothing, Got: show(got[i])})
		case i >= len(got):
			// An expected null matches an absent field, but not an absent element.
			found = append(found, Difference{Path: at, Expected: show(want[i]), Got: nothing})
		default:
			found = append(found, differences(at, want[i], got[i], exact)...)
		}
	}
	return found
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func isNumber(v bson.RawValue) bool {
	_, ok := fold.NumberOf(v)
	return ok
}

// equal compares an expected value with an actual one.
func equal(a, b bson.RawValue) bool {
	if n, ok := fold.NumberOf(a); ok && isNumber(b) {
		m, _ := fold.NumberOf(b)
		// A double counts as its shortest text, so that 0.1 is the Decimal128 of 0.1.
		d, err := fold.SubtractDecimals(n, m)
		return fold.CompareNumbers(n, m) == 0 || err == nil && fold.CompareNumbers(fold.Number{Kind: fold.DecimalNumber, Decimal128: d}, fold.Number{}) == 0
	}
	if a.Type == bson.TypeNull && b.Type == 0 {
		// An expected null matches an absent field, because expressions see an absent
		// field as null too.
		return true
	}
	return a.Equal(b)
}

// show returns a value as text for people.
func show(v bson.RawValue) string { return cmp.Or(projection.Show(v), nothing) }
