package projection_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// TestViewRefusesFieldsOfItsOwn has elements with fields that the document has already. It
// would have them twice, or MongoDB would refuse every later change of the document.
func TestViewRefusesFieldsOfItsOwn(t *testing.T) {
	t.Parallel()
	p := projectiontest.One(t, `
views:
  - name: v
    collection: v
    from:
      - {aggregateType: A, each: part.lines, key: "'k'", keep: fields, on: {E: {set: {lines: payload.lines}}}, totals: {number: {count: true}}}
      - {aggregateType: B, key: "'k'", as: others, on: {E: {set: {x: "1"}}}}
`)
	for name, says := range map[string]string{
		"sku": "", "documents": "", "_id": "_id is also one", "lastUpdatedAt": "lastUpdatedAt is also one", "parts": "parts is also one",
		"others": "others is also one", "number": "number is also one", "$inc": "starts with $", "a.b": "has a dot", "": "it is empty",
	} {
		ev := viewEvent("A", "a", 1, "E", bson.D{{Key: "lines", Value: bson.A{bson.D{{Key: name, Value: 1}}}}})
		f := p.Fold(nil, []*event.Event{ev})
		if says == "" && f.Err != nil || says != "" && (f.Err == nil || !strings.Contains(f.Err.Error(), says)) {
			t.Errorf("an element with the field %q: %v", name, f.Err)
		}
	}
}

// TestKeysOfViews has keys that are the _id of a document, and keys that cannot be one.
func TestKeysOfViews(t *testing.T) {
	t.Parallel()
	p := projectiontest.One(t, `
views:
  - name: v
    collection: v
    from:
      - {aggregateType: A, key: part.key, as: others, on: {E: {set: {key: payload.key}}}}
`)
	id := bson.NewObjectID()
	for _, test := range []struct {
		key        any
		want, says string
	}{
		{key: int32(7), want: "7"},
		{key: 7.0, want: "7"},
		{key: id, want: id.Hex()},
		{key: bson.Binary{Subtype: 4, Data: make([]byte, 16)}, want: "00000000-0000-0000-0000-000000000000"},
		{key: "$a.b", want: "$a.b"},
		{key: "", says: "the key is empty"},
		{key: strings.Repeat("k", 1025), says: "the key has 1025 bytes"},
		{key: "a\x00", says: `the key "a\x00" has a NUL`},
		{key: 7.5, says: "the key is double, and a key is a text"},
		{key: true, says: "the key is bool, and a key is a text"},
		{key: bson.Binary{Subtype: 4, Data: []byte{1}}, says: "the key is binData, and a key is a text"},
		{key: bson.Binary{Subtype: 3, Data: make([]byte, 16)}, says: "write uuid(value, 'csharpLegacy')"},
		{key: bson.Timestamp{T: 1}, says: "the key is timestamp, and a key is a text"},
		{key: bson.D{}, says: "and a key is a text"},
	} {
		f := p.Fold(nil, []*event.Event{viewEvent("A", "a", 1, "E", bson.D{{Key: "key", Value: test.key}})})
		switch {
		case test.says == "" && f.Err != nil:
			t.Errorf("%v: %v", test.key, f.Err)
		case test.says == "":
			if keys := p.View().Keys(f.Document); len(keys) != 1 || keys[0] != test.want {
				t.Errorf("%v gives %q, want %q", test.key, keys, test.want)
			}
		case f.Err == nil || !strings.Contains(f.Err.Error(), test.says):
			t.Errorf("%v: %v, want %s", test.key, f.Err, test.says)
		}
	}
}

func TestNullAddsNothingToASet(t *testing.T) {
	t.Parallel()
	p := totalsOf(t, `{all: {set: part.x}}`)
	v := p.View()
	var changes []model.PartChange
	for id, x := range map[string]any{"a": bson.A{int64(2), nil, int64(1)}, "b": nil} {
		f := p.Fold(nil, []*event.Event{viewEvent("A", id, 1, "E", bson.D{{Key: "x", Value: x}})})
		if f.Err != nil {
			t.Fatal(f.Err)
		}
		changes = append(changes, model.PartChange{AggregateID: id, After: f.Document})
	}
	document, ok, err := v.Merge("k", nil, changes)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if got := document.Lookup("all").String(); got != `[{"$numberLong":"1"},{"$numberLong":"2"}]` {
		t.Errorf("the set is %s, want 1 and 2", got)
	}
}

// TestLeastAndGreatestRefuseNaN checks that a part with NaN does not hide the values of others.
func TestLeastAndGreatestRefuseNaN(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"min", "max"} {
		p := totalsOf(t, `{end: {`+kind+`: part.x}}`)
		for _, test := range []struct {
			value any
			says  string
		}{
			{1.5, ""},
			{math.Inf(1), ""},
			{math.NaN(), "NaN has no order: leave it out with where"},
			{decimal(t, "NaN"), "NaN has no order: leave it out with where"},
			{bson.D{}, "object has no order"},
		} {
			f := p.Fold(nil, []*event.Event{viewEvent("A", "a", 1, "E", bson.D{{Key: "x", Value: test.value}})})
			if (f.Err == nil) != (test.says == "") || f.Err != nil && !strings.Contains(f.Err.Error(), test.says) {
				t.Errorf("%s of %v: %v, want %q", kind, test.value, f.Err, test.says)
			}
		}
	}
}

// TestSumSaysWhatItCannotAdd has values that a total refuses, each with its own remedy.
func TestSumSaysWhatItCannotAdd(t *testing.T) {
	t.Parallel()
	p := totalsOf(t, `{all: {sum: part.x}}`)
	for _, test := range []struct {
		value any
		says  string
	}{
		{1.5, "convert the value with decimal()"},
		{float64(1 << 53), "from 2^53 on"},
		{math.NaN(), "NaN cannot be added: leave it out with where"},
		{math.Inf(1), "+Inf cannot be added: leave it out with where"},
		{decimal(t, "-Infinity"), "-Inf cannot be added: leave it out with where"},
		{"1", "the value is string, not a number"},
	} {
		f := p.Fold(nil, []*event.Event{viewEvent("A", "a", 1, "E", bson.D{{Key: "x", Value: test.value}})})
		if f.Err == nil || !strings.Contains(f.Err.Error(), test.says) {
			t.Errorf("%v: %v, want %s", test.value, f.Err, test.says)
		}
	}
}

// TestConditionOfTotal has results of where. An empty optional is no mistake: it adds nothing.
func TestConditionOfTotal(t *testing.T) {
	t.Parallel()
	p := totalsOf(t, `{all: {count: true, where: "part.x == 0 ? dyn(part.?y) : part.x"}}`)
	for _, test := range []struct {
		fields bson.D
		want   string
	}{
		{bson.D{{Key: "x", Value: true}}, `"totals": {"all": {"$numberLong":"1"}}`},
		{bson.D{{Key: "x", Value: false}}, `"totals": {}`},
		{bson.D{{Key: "x", Value: 0}}, `"totals": {}`},
		{bson.D{{Key: "x", Value: 1}}, "total all: where: part.x == 0 ? dyn(part.?y) : part.x: the result is not a bool"},
	} {
		f := p.Fold(nil, []*event.Event{viewEvent("A", "a", 1, "E", test.fields)})
		if got := fmt.Sprint(f.Document, f.Err); !strings.Contains(got, test.want) {
			t.Errorf("%v: %s, want %s", test.fields, got, test.want)
		}
	}
}
