package projection_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// TestEquality checks ==, in and the order of values that CEL itself compares wrongly or
// not at all.
func TestEquality(t *testing.T) {
	t.Parallel()
	const payload = `{"id":{"$oid":"64b7f8a2c9e77a0001234567"},"uuid":{"$uuid":"00112233-4455-6677-8899-aabbccddeeff"},
		"bin":{"$binary":{"base64":"AQI=","subType":"00"}},"dec":{"$numberDecimal":"12.50"},"s":"text","z":null,
		"decs":[{"$numberDecimal":"1"},{"$numberDecimal":"2"}],"doc":{"a":{"$numberDecimal":"1"}},
		"long":{"$numberLong":"9007199254740993"},"double":9007199254740992.0}`
	resultsOf(t, payload, map[string]string{
		"payload.id in ['a', 'b'] || payload.uuid in ['a'] || payload.bin in ['a']":  "false",
		"payload.dec in [1, 12.5] && payload.dec in [12.5]":                          "true",
		"payload.dec in [1, 2] || payload.dec in ['12.50']":                          "false",
		"payload.s in ['a', 'text'] && payload.z in ['a', null]":                     "true",
		"payload.s in [] || payload.z in ['a']":                                      "false",
		"1 in payload.decs && 2.0 in payload.decs && !(3 in payload.decs)":           "true",
		"payload.decs == [1, 2.0] && [1, 2] == payload.decs":                         "true",
		"payload.decs != [1, 3] && [1] != payload.decs":                              "true",
		"payload.doc == {'a': 1} && {'a': 1} == payload.doc":                         "true",
		"[{'a': [1]}] == [{'a': [payload.decs[0]]}]":                                 "true",
		"sets.contains(payload.decs, [1]) && sets.equivalent([1, 2], payload.decs)":  "true",
		"payload.?decs == optional.of([1, 2]) && payload.?none == optional.none()":   "true",
		"payload.long == payload.double || payload.double == payload.long":           "false",
		"payload.long > payload.double && payload.double < payload.long":             "true",
		"payload.long in [payload.double]":                                           "false",
		"payload.id in {'a': 1} || payload.bin in {'a': 1} || payload.dec in {1: 1}": "false",
		"'a' in payload.z":        "error: in does not take string and null: give a field",
		"{payload.id: 1} == {}":   "error: convert an ObjectId, a UUID or a Decimal128 with string()",
		"{payload.bin: 1} == {}":  "error: a key of a map has a type",
		"payload.doc[payload.id]": "error: the value in the brackets has a type",
	})
}

// drawComparable draws a value without NaN.
func drawComparable(t *rapid.T, depth int) any {
	kinds := 6
	if depth < 2 {
		kinds = 8
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]int64{0, 1, 2, 1<<53 + 1, -1 << 63, 1<<63 - 1}).Draw(t, "long")
	case 1:
		return rapid.SampledFrom([]float64{0, 1, 1.5, 0.1, 1 << 53, 1 << 63, -1 << 63}).Draw(t, "double")
	case 2:
		return decimal(t, rapid.SampledFrom([]string{"0", "1", "1.00", "1.5", "0.1", "9007199254740993", "1E+6000", "-0", "Infinity"}).Draw(t, "decimal"))
	case 3:
		return rapid.SampledFrom([]string{"", "1", "a"}).Draw(t, "text")
	case 4:
		return nil
	case 5:
		return rapid.SampledFrom([]any{true, bson.ObjectID{1}, bson.DateTime(-1), bson.Binary{Data: []byte("1")}}).Draw(t, "other")
	case 6:
		a := bson.A{}
		for range rapid.IntRange(0, 2).Draw(t, "length") {
			a = append(a, drawComparable(t, depth+1))
		}
		return a
	}
	d := bson.D{}
	for _, name := range rapid.Permutation([]string{"x", "y"}).Draw(t, "names")[:rapid.IntRange(0, 2).Draw(t, "fields")] {
		d = append(d, bson.E{Key: name, Value: drawComparable(t, depth+1)})
	}
	return d
}

// TestExpressionsAndOperatorsAgreeOnEquality compares random values by ==, in and addToSet,
// in both directions.
func TestExpressionsAndOperatorsAgreeOnEquality(t *testing.T) {
	t.Parallel()
	p := projectiontest.On(t, `{set: {equal: "payload.a == payload.b", reversed: "payload.b == payload.a", different: "payload.a != payload.b",
		member: "payload.a in [payload.b]", listed: "[payload.a] == [payload.b]", keyed: "{'k': payload.b} == {'k': payload.a}"},
		addToSet: {s: payload.a}}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawComparable(t, 0), drawComparable(t, 0)
		events := make([]*event.Event, 2)
		for i, pair := range []bson.D{{{Key: "a", Value: b}, {Key: "b", Value: a}}, {{Key: "a", Value: a}, {Key: "b", Value: b}}} {
			events[i] = &event.Event{Keys: event.Keys{AggregateID: "1", EventID: int64(i + 1), EventType: "E"}, Payload: testkit.Value(pair)}
		}
		f := p.Fold(nil, events)
		if f.Err != nil {
			t.Fatal(f.Err)
		}
		elements, err := f.State().Lookup("s").Array().Values()
		if err != nil {
			t.Fatal(err)
		}
		want := len(elements) == 1
		for name, expected := range map[string]bool{"equal": want, "reversed": want, "different": !want, "member": want, "listed": want, "keyed": want} {
			if got := f.State().Lookup(name).Boolean(); got != expected {
				t.Errorf("%s of %v and %v is %t, want %t", name, a, b, got, expected)
			}
		}
	})
}
