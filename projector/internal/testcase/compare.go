package testcase

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
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
	if isNumber(a) && isNumber(b) {
		x, y := numberText(a), numberText(b)
		if x == y {
			return true
		}
		p, ok := new(big.Rat).SetString(x)
		q, also := new(big.Rat).SetString(y)
		return ok && also && p.Cmp(q) == 0
	}
	if a.Type == bson.TypeNull && b.Type == 0 {
		// An expected null matches an absent field, because expressions see an absent
		// field as null too.
		return true
	}
	return a.Equal(b)
}

// numberText returns a number as text, a double in its shortest form.
func numberText(v bson.RawValue) string {
	switch v.Type {
	case bson.TypeDouble:
		f := v.Double()
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Sprint(f)
		}
		return strconv.FormatFloat(f, 'g', -1, 64)
	case bson.TypeDecimal128:
		return v.Decimal128().String()
	}
	return strconv.FormatInt(v.AsInt64(), 10)
}

// show returns a value as text for people.
func show(v bson.RawValue) string {
	switch v.Type {
	case 0:
		return nothing
	case bson.TypeDateTime:
		return v.Time().UTC().Format("2006-01-02T15:04:05.999Z07:00")
	case bson.TypeObjectID:
		return v.ObjectID().Hex()
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal128:
		return numberText(v)
	}
	text, err := bson.MarshalExtJSON(bson.D{{Key: "v", Value: v}}, false, false)
	if err != nil {
		return v.String()
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(text), `{"v":`), "}")
}
