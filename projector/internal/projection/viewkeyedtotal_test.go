package projection_test

import (
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

const byKey = `{n: {count: true, by: "part.x.?key"}, s: {sum: part.x.value, by: "part.x.?key"}}`

// keyed is an event of a part of byKey.
func keyed(id string, n int64, key, value any) []*event.Event {
	x := bson.D{{Key: "key", Value: key}, {Key: "value", Value: value}}
	if key == nil {
		x = x[1:]
	}
	return []*event.Event{viewEvent("A", id, n, "E", bson.D{{Key: "x", Value: x}})}
}

// TestTotalByKey shows how keys come and go.
func TestTotalByKey(t *testing.T) {
	t.Parallel()
	l := newPipeline(totalsOf(t, byKey))
	for i, test := range []struct {
		id         string
		key, value any // no key and no value if the part goes
		want       string
	}{
		{"a", "north", 5, `"n": {"north": {"$numberLong":"1"}},"s": {"north": {"$numberLong":"5"}}`},
		{"b", "a.$b", 2, `"n": {"a.$b": {"$numberLong":"1"},"north": {"$numberLong":"1"}},"s": {"a.$b": {"$numberLong":"2"},"north": {"$numberLong":"5"}}`},
		{"c", "north", decimal(t, "-5.0"), `"n": {"a.$b": {"$numberLong":"1"},"north": {"$numberLong":"2"}},"s": {"a.$b": {"$numberLong":"2"}}`},
		{"b", "north", decimal(t, "0.5"), `"n": {"north": {"$numberLong":"3"}},"s": {"north": {"$numberDecimal":"0.5"}}`},
		{"c", "$", 1, `"n": {"$": {"$numberLong":"1"},"north": {"$numberLong":"2"}},"s": {"$": {"$numberLong":"1"},"north": {"$numberDecimal":"5.5"}}`},
		{"b", 7.0, 1, `"n": {"$": {"$numberLong":"1"},"7": {"$numberLong":"1"},"north": {"$numberLong":"1"}},"s": {"$": {"$numberLong":"1"},"7": {"$numberLong":"1"},"north": {"$numberLong":"5"}}`},
		{"a", nil, 5, `"n": {"$": {"$numberLong":"1"},"7": {"$numberLong":"1"}},"s": {"$": {"$numberLong":"1"},"7": {"$numberLong":"1"}}`},
	} {
		change := l.fold(t, keyed(test.id, int64(i), test.key, test.value))
		if _, alone, err := l.p.View().Merge("k", l.documents["k"], []model.PartChange{change}); !alone || err != nil {
			t.Errorf("step %d reads all parts, or fails: %v", i, err)
		}
		l.merge(t, []model.PartChange{change})
		if got := l.documents["k"].String(); got != fmt.Sprintf(`{"parts": {"$numberLong":"%d"},%s}`, len(l.parts), test.want) || got != l.whole(t, "k").String() {
			t.Errorf("step %d: the document is\n%s, of all parts\n%s, want\n%s", i, got, l.whole(t, "k"), test.want)
		}
	}
	l.merge(t, []model.PartChange{l.fold(t, keyed("d", 1, "", 1))})
	if n, ok := l.documents["k"].Lookup("n", "").AsInt64OK(); !ok || n != 1 {
		t.Errorf("the document is %s, without the empty key", l.documents["k"])
	}
	l = newPipeline(totalsOf(t, `{s: {sum: decimal(part.x), by: aggregateId}}`))
	l.merge(t, []model.PartChange{l.fold(t, []*event.Event{viewEvent("A", "a", 1, "E", bson.D{{Key: "x", Value: 5}})})})
	if got := l.documents["k"].String(); got != `{"parts": {"$numberLong":"1"},"s": {"a": {"$numberDecimal":"5"}}}` {
		t.Errorf("a sum of Decimal128s alone is %s", got)
	}
}

// TestTotalByKeyRefuses has keys that name no field, sums that are too long, and documents that
// somebody has changed.
func TestTotalByKeyRefuses(t *testing.T) {
	t.Parallel()
	p := totalsOf(t, byKey)
	for _, test := range []struct {
		key  any
		says string
	}{
		{true, "total n: by: part.x.?key: the name is bool"},
		{1.5, "the name is double: a name is a text or a whole number, so convert the value with string()"},
		{bson.D{}, "a name is a text or a whole number"},
		{"a\x00", "it holds a zero byte"},
	} {
		if f := p.Fold(nil, keyed("a", 1, test.key, 1)); f.Err == nil || !strings.Contains(f.Err.Error(), test.says) {
			t.Errorf("the key %v: %v", test.key, f.Err)
		}
	}
	l := newPipeline(p)
	l.merge(t, []model.PartChange{l.fold(t, keyed("a", 1, "north", decimal(t, "1E+33")))})
	document := l.documents["k"]
	l.merge(t, []model.PartChange{l.fold(t, keyed("b", 1, "north", decimal(t, "0.1"))), l.fold(t, keyed("a", 2, "north", 1))})
	if got, _ := l.documents["k"].LookupErr("s", "north"); got.String() != `{"$numberDecimal":"1.1"}` {
		t.Errorf("a sum that is too long between two changes is %s", got)
	}
	change := l.fold(t, keyed("c", 1, "north", decimal(t, "1E+33")))
	if _, ok, err := p.View().Merge("k", l.documents["k"], []model.PartChange{change}); ok || err != nil {
		t.Errorf("a sum that is too long: %v", err)
	}
	if _, err := model.Whole(p.View(), "k", []model.Part{{AggregateID: "b", Document: l.parts["b"]}, {AggregateID: "c", Document: l.parts["c"]}}); err == nil || !strings.Contains(err.Error(), "total s: the sum has more than 34 digits") {
		t.Errorf("a sum of all parts that is too long: %v", err)
	}
	changed := bson.Raw(strings.Replace(string(document), "\x03s\x00", "\x04s\x00", 1))
	if _, ok, err := p.View().Merge("k", changed, []model.PartChange{{AggregateID: "a", Before: l.parts["a"]}, {AggregateID: "b", After: l.parts["b"]}}); ok || err != nil {
		t.Errorf("a total that somebody has changed is not made of its parts: %v", err)
	}
}

func TestTotalByKeyDeclarations(t *testing.T) {
	t.Parallel()
	for totals, want := range map[string]string{
		"{t: {max: part.x, by: part.x}}":         "only sum and count can be by a key, not max",
		"{t: {count: true, by: \"[1]\"}}":        "a field is named by a text or a whole number",
		"{t: {count: true, by: element.branch}}": "the total uses element, and A has no each",
		"{t: {by: part.x}}":                      "the total does not say what it is",
	} {
		text := "views: [{name: v, collection: v, from: [{aggregateType: A, key: part.x, on: {E: {set: {x: payload.x}}}, totals: " + totals + "}]}]"
		if _, err := projection.Parse("test.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", totals, err)
		}
	}
	two := "views: [{name: v, collection: v, from: [{aggregateType: A, key: part.x, on: {E: {set: {x: payload.x}}}, totals: {t: {count: true}}}," +
		"{aggregateType: B, key: part.x, on: {E: {set: {x: payload.x}}}, totals: {t: {count: true, by: part.x}}}]}]"
	if _, err := projection.Parse("test.yaml", []byte(two)); err == nil || !strings.Contains(err.Error(), "the total t is count of one source and count by a key of another") {
		t.Error(err)
	}
}
