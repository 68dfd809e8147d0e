package projection_test

import (
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

func TestComputedPaths(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 10_000)
	checkStates(t, []stateTest{
		{"a counter per text", `{inc: {"by[payload.r]": 1}}`, `{"by":{"x":1,"y":2}}`, `{"r":"x"}`, `{"by":{"x":2,"y":2}}`},
		{"the first of its name", `{inc: {"by[payload.r]": 1}}`, ``, `{"r":"x"}`, `{"by":{"x":1}}`},
		{"a field below", `{set: {"by[payload.r].last": eventId}}`, `{"by":{"x":{"n":1}}}`, `{"r":"x"}`, `{"by":{"x":{"n":1,"last":8}}}`},
		{"two names in a row", `{inc: {"by[payload.r][payload.s]": 1}}`, ``, `{"r":"x","s":"y"}`, `{"by":{"x":{"y":1}}}`},
		{"brackets in the expression", `{inc: {"by[payload.rs[0] + ']']": 1}}`, ``, `{"rs":["x"]}`, `{"by":{"x]":1}}`},
		{"a year", `{inc: {"by[timestamp.getFullYear()]": 1}}`, ``, `{}`, `{"by":{"2026":1}}`},
		{"a double that is whole", `{inc: {"by[payload.r]": 1}}`, `{"by":{"7":1}}`, `{"r":7.0}`, `{"by":{"7":2}}`},
		{"a dot", `{inc: {"by[payload.r]": 1}}`, `{"by":{"out.of.stock":1}}`, `{"r":"out.of.stock"}`, `{"by":{"out.of.stock":2}}`},
		{"a dollar", `{inc: {"by[payload.r]": 1}}`, `{"by":{"$inc":1}}`, `{"r":"$inc"}`, `{"by":{"$inc":2}}`},
		{"an empty name", `{inc: {"by[payload.r]": 1}}`, `{"by":{"":1}}`, `{"r":""}`, `{"by":{"":2}}`},
		{"a name of the engine", `{inc: {"by[payload.r]": 1}}`, ``, `{"r":"lastEventId"}`, `{"by":{"lastEventId":1}}`},
		{"a name of JavaScript", `{inc: {"by[payload.r]": 1}}`, ``, `{"r":"__proto__"}`, `{"by":{"__proto__":1}}`},
		{"a long name", `{inc: {"by[payload.r]": 1}}`, ``, `{"r":"` + long + `"}`, `{"by":{"` + long + `":1}}`},
		{"an empty optional", `{inc: {"by[payload.?r]": 1, n: 1}}`, ``, `{}`, `{"n":1}`},
		{"unset", `{unset: "by[payload.r]"}`, `{"by":{"x":1,"y":2}}`, `{"r":"x"}`, `{"by":{"y":2}}`},
		{"unset what is not there", `{unset: "by[payload.r]"}`, `{"n":1}`, `{"r":"x"}`, `{"n":1}`},
		{"two counters of one name", `{inc: {"by[payload.r]": -1, "by[payload.s]": 3}}`, `{"by":{"x":1}}`, `{"r":"x","s":"x"}`, `{"by":{"x":3}}`},
		{"a name in backquotes", "{set: {\"`a (b)`.c\": 1}}", ``, `{}`, `{"a (b)":{"c":1}}`},

		{"null", `{inc: {"by[state.r]": 1}}`, ``, `{}`, `error: inc by[state.r]: in brackets: state.r: the name is null: give it a default`},
		{"a Decimal128", `{inc: {"by[payload.r]": 1}}`, ``, `{"r":{"$numberDecimal":"10"}}`, `error: the name is a Decimal128: convert the value with int()`},
		{"a fraction", `{inc: {"by[payload.r]": 1}}`, ``, `{"r":1.5}`, `error: the name is double: a name is a text or a whole number`},
		{"a boolean", `{inc: {"by[payload.r]": 1}}`, ``, `{"r":true}`, `error: the name is bool`},
		{"a document", `{inc: {"by[payload.r]": 1}}`, ``, `{"r":{}}`, `error: the name is map`},
		{"an ObjectId", `{inc: {"by[payload.r]": 1}}`, ``, `{"r":{"$oid":"64b7f8a2c9e77a0001234567"}}`, `error: convert the value with string()`},
		{"a zero byte", `{inc: {"by[payload.r]": 1}}`, ``, `{"r":"a\u0000b"}`, `error: the name "a\x00b" is not valid`},
		{"absent", `{inc: {"by[payload.r]": 1}}`, ``, `{}`, `error: inc by[payload.r]: in brackets: payload.r: no such key: r`},
		{"an array", `{inc: {"by[payload.r]": 1}}`, `{"by":[1]}`, `{"r":"x"}`, `error: inc by[payload.r]: by is array: no document`},
	})
}

// stateTest is a handler, a document, the payload of an event, and the document after it, or
// "error: " and a part of the message. An event that fails changes nothing.
type stateTest struct{ name, handler, before, payload, after string }

func checkStates(t *testing.T, tests []stateTest) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := projectiontest.On(t, test.handler)
			var before bson.Raw
			if test.before != "" {
				before = testkit.FromJSON(strings.Replace(test.before, "{", `{"_id":"a-1","lastEventId":{"$numberLong":"7"},"lastUpdatedAt":{"$date":"2026-01-01T00:00:00Z"},"lastGeneration":{"$numberLong":"2"},`, 1))
			}
			f := p.Fold(before, []*event.Event{projectiontest.Event(8, "E", test.payload)})
			if want, isError := strings.CutPrefix(test.after, "error: "); isError {
				if f.Err == nil || !strings.Contains(f.Err.Error(), want) {
					t.Fatalf("error is %v, want %s", f.Err, want)
				}
				if f.Folded != 0 || f.Kind != 0 {
					t.Errorf("the failed event was folded: %+v", f)
				}
				if test.before == "" {
					test.before = "nil"
				}
				test.after = test.before
			} else if f.Err != nil {
				t.Fatal(f.Err)
			}
			want := test.after
			if want != "nil" {
				want = projectiontest.JSON(t, testkit.FromJSON(want))
			}
			if got := projectiontest.JSON(t, f.State()); got != want {
				t.Errorf("state is %s, want %s", got, want)
			}
		})
	}
}

func TestElementsByID(t *testing.T) {
	t.Parallel()
	const two = `{"l":[{"id":"a","n":1},{"id":"b","n":2}]}`
	checkStates(t, []stateTest{
		{"a field of an element", `{set: {"l[id=payload.id].n": payload.n}}`, two, `{"id":"b","n":9}`, `{"l":[{"id":"a","n":1},{"id":"b","n":9}]}`},
		{"a counter of an element", `{inc: {"l[id = payload.id].n": payload.n}}`, two, `{"id":"b","n":9}`, `{"l":[{"id":"a","n":1},{"id":"b","n":11}]}`},
		{"an element that is missing", `{inc: {"l[id=payload.id].n": 1}}`, two, `{"id":"c"}`, `{"l":[{"id":"a","n":1},{"id":"b","n":2},{"id":"c","n":1}]}`},
		{"the first element", `{inc: {"l[id=payload.id].n": 1}, set: {"l[id=payload.id].m": 2}}`, ``, `{"id":"c"}`, `{"l":[{"id":"c","n":1,"m":2}]}`},
		{"a whole element", `{set: {"l[id=payload.id]": "{'m': 5}"}}`, two, `{"id":"a"}`, `{"l":[{"id":"a","m":5},{"id":"b","n":2}]}`},
		{"a whole element with its id", `{set: {"l[id=payload.id]": payload}}`, two, `{"z":1,"id":"c"}`, `{"l":[{"id":"a","n":1},{"id":"b","n":2},{"z":1,"id":"c"}]}`},
		{"removed", `{unset: "l[id=payload.id]"}`, two, `{"id":"a"}`, `{"l":[{"id":"b","n":2}]}`},
		{"the last is removed", `{unset: "l[id=payload.id]"}`, `{"l":[{"id":"a"}]}`, `{"id":"a"}`, `{"l":[]}`},
		{"removed, but not there", `{unset: "l[id=payload.id]"}`, two, `{"id":"z"}`, two},
		{"removed from nothing", `{unset: "l[id=payload.id]"}`, ``, `{"id":"z"}`, `nil`},
		{"a field is removed", `{unset: "l[id=payload.id].n"}`, two, `{"id":"a"}`, `{"l":[{"id":"a"},{"id":"b","n":2}]}`},
		{"a field is removed from nothing", `{unset: "l[id=payload.id].n"}`, two, `{"id":"z"}`, two},
		{"pull from an element that is missing", `{pull: {"l[id=payload.id].t": 1}}`, two, `{"id":"z"}`, two},
		{"push within an element", `{push: {"l[id=payload.id].t": 1}}`, two, `{"id":"a"}`, `{"l":[{"id":"a","n":1,"t":[1]},{"id":"b","n":2}]}`},
		{"twice in the list", `{set: {"l[id=payload.id].n": 5}}`, `{"l":[{"id":"a","n":1},{"id":"a","n":2}]}`, `{"id":"a"}`, `{"l":[{"id":"a","n":5},{"id":"a","n":5}]}`},
		{"twice in the list, removed", `{unset: "l[id=payload.id]"}`, `{"l":[{"id":"a","n":1},{"id":"a","n":2}]}`, `{"id":"a"}`, `{"l":[]}`},
		{"another type", `{set: {"l[id=payload.id].n": 5}}`, `{"l":[{"id":5}]}`, `{"id":"5"}`, `{"l":[{"id":5},{"id":"5","n":5}]}`},
		{"another number type", `{set: {"l[id=payload.id].n": 5}}`, `{"l":[{"id":5}]}`, `{"id":5.0}`, `{"l":[{"id":5,"n":5}]}`},
		{"other elements", `{set: {"l[id=payload.id].n": 5}}`, `{"l":[1,null,[{"id":"a"}]]}`, `{"id":"a"}`, `{"l":[1,null,[{"id":"a"}],{"id":"a","n":5}]}`},
		{"elements in elements", `{inc: {"l[id=payload.id].l[id=payload.n].q": 1}}`, two, `{"id":"a","n":7}`, `{"l":[{"id":"a","n":1,"l":[{"id":7,"q":1}]},{"id":"b","n":2}]}`},
		{"from one to another", `{inc: {"l[id=payload.id].n": -1, "l[id=payload.to].n": 1}}`, two, `{"id":"a","to":"b"}`, `{"l":[{"id":"a","n":0},{"id":"b","n":3}]}`},
		{"an empty optional", `{inc: {"l[id=payload.?id].n": 1, n: 1}}`, ``, `{}`, `{"n":1}`},

		{"null", `{set: {"l[id=state.x].n": 5}}`, two, `{}`, `error: the id of an element is null`},
		{"a document", `{set: {"l[id=payload.id].n": 5}}`, two, `{"id":{}}`, `error: the id of an element is object`},
		{"no list", `{set: {"l[id=payload.id].n": 5}}`, `{"l":{"a":1}}`, `{"id":"a"}`, `error: the field is object, not an array`},
		{"another id", `{set: {"l[id=payload.id]": "{'id': 'z'}"}}`, two, `{"id":"a"}`, `error: the value has another id than the path: "z"`},
		{"no document", `{set: {"l[id=payload.id]": 5}}`, two, `{"id":"a"}`, `error: the value is long, and an element with the field id is an object`},
	})
}

// A list with many elements of one id could otherwise grow beyond all memory by one event.
func TestElementsAreChargedBeforeTheyAreBuilt(t *testing.T) {
	t.Parallel()
	list := strings.TrimSuffix(strings.Repeat(`{"id":1},`, 2000), ",")
	checkStates(t, []stateTest{
		{"many elements", `{set: {"l[id=payload.id].n": payload.text}}`, `{"l":[` + list + `]}`, `{"id":1,"text":"` + strings.Repeat("x", 100_000) + `"}`, "error: needs too much memory"},
	})
}

// TestComputedPathsKeepTheIdentity checks the definitions of computed paths.
func TestComputedPathsKeepTheIdentity(t *testing.T) {
	t.Parallel()
	p := projectiontest.On(t, `{inc: {"by[ payload.r ]": 1, "l[id = payload.id].n": 2}, unset: "x[payload.r]"}`)
	const want = `{"collection":"c","name":"p","on":{"E":{"inc":{"by[payload.r]":"1","l[id=payload.id].n":"2"},"unset":["x[payload.r]"]}},"semantics":1}`
	if p.Definition() != want {
		t.Errorf("definition is %s", p.Definition())
	}
	again, err := projection.Compile(want)
	if err != nil || projection.Redefine(again) != want {
		t.Errorf("compiled %v, %v", again, err)
	}
	quoted := projectiontest.On(t, "{set: {\"`a (b)`.c\": 1}}")
	if want := `{"collection":"c","name":"p","on":{"E":{"set":{"` + "`a (b)`" + `.c":"1"}}},"semantics":1}`; quoted.Definition() != want {
		t.Errorf("a name in backquotes gives another definition: %s", quoted.Definition())
	}
}

func TestPathsThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	for handler, want := range map[string]string{
		`{inc: {"[payload.r]": 1}}`:                                   "has brackets without a name before them",
		`{inc: {"by[payload.r": 1}}`:                                  "has a [ without its ]",
		`{inc: {"by]": 1}}`:                                           "has a ] where a dot",
		`{inc: {"by(payload.r)": 1}}`:                                 "brackets hold an expression, such as byReason[payload.reason]",
		`{inc: {"by.string(payload.r)": 1}}`:                          "has a ( where a dot",
		`{inc: {"by[]": 1}}`:                                          "the expression is missing",
		`{inc: {"by[reason]": 1}}`:                                    "\"'reason'\"",
		`{inc: {"lines[0]": 1}}`:                                      "not the position of an element",
		`{inc: {"by[payload.a]x": 1}}`:                                "has a x where a dot",
		`{inc: {"by[payload.a == 1]": 1}}`:                            "gives bool, and a field is named by a text",
		`{inc: {"by[[1]]": 1}}`:                                       "gives list, and a field is named by a text",
		`{inc: {"lastEventId[payload.a]": 1}}`:                        "belongs to Penstock",
		`{inc: {"by[state.a]": 1, "by.x": "1", "by[state.b].y": 1}}`:  "can change the same value",
		`{set: {"by[payload.a]": 1}, inc: {"by[payload.b]": 1}}`:      "can change the same value",
		`{inc: {"by[payload.a]": 1, "by[ payload.a ]": 1}}`:           "can change the same value",
		`{inc: {"l[id=payload.a]": 1}}`:                               "inc changes a whole element: name its field",
		`{set: {"l[id == payload.a].n": 1}}`:                          "an element is selected with a single =, such as [id=payload.a]",
		`{set: {"l[id=payload.a].id": 1}}`:                            "changes id, which selects the element",
		`{set: {"l[id=payload.a][payload.b]": 1}}`:                    "name a field of the element between them",
		`{set: {"l[id=[1]].n": 1}}`:                                   "the id of an element is a text, a number",
		`{set: {"l[id=payload.a].n": 1}, push: {l: payload}}`:         "can change the same value",
		`{set: {"l[id=payload.a].n": 1}, unset: "l[id=payload.b].n"}`: "can change the same value",
		"{set: {\"`a.b`\": 1}}":                                       "a name with a dot",
		"{set: {\"`a\": 1}}":                                          "a backquote without its pair",
	} {
		_, err := projection.Parse("test.yaml", []byte("projections: [{name: p, collection: c, on: {E: "+handler+"}}]"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", handler, err, want)
		}
	}
}

// TestComputedCountersEqualACount compares counters per key with a count in Go, for keys of
// every kind, in any batches.
func TestComputedCountersEqualACount(t *testing.T) {
	t.Parallel()
	p := projectiontest.On(t, `{inc: {"by[payload.k]": 1, "by[payload.m]": 2}, set: {"l[id=payload.k].last": eventId}}`)
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SampledFrom([]string{"", "a", "a.b", "$a", "$", "0", "_id", "lastEventId", "a[b]", "ä"})
		counts, order, last := map[string]int64{}, []string{}, map[string]int64{}
		var events []*event.Event
		for i := range rapid.IntRange(1, 12).Draw(t, "events") {
			k, m := keys.Draw(t, "k"), keys.Draw(t, "m")
			counts[k]++
			counts[m] += 2
			if _, seen := last[k]; !seen {
				order = append(order, k)
			}
			last[k] = int64(i + 1)
			events = append(events, projectiontest.Event(int64(i+1), "E", fmt.Sprintf(`{"k":%q,"m":%q}`, k, m)))
		}
		document := foldInBatches(t, p, events)
		by := projectiontest.Content(document)["by"].Document()
		elements, err := by.Elements()
		if err != nil || len(elements) != len(counts) {
			t.Fatalf("%s, counted %v", by, counts)
		}
		for _, e := range elements {
			if counts[e.Key()] != e.Value().Int64() {
				t.Fatalf("%q is %s, counted %d", e.Key(), e.Value(), counts[e.Key()])
			}
		}
		list, err := projectiontest.Content(document)["l"].Array().Values()
		if err != nil || len(list) != len(order) {
			t.Fatalf("%v, in order %v", list, order)
		}
		for i, v := range list {
			if id := v.Document().Lookup("id").StringValue(); id != order[i] || v.Document().Lookup("last").Int64() != last[id] {
				t.Fatalf("element %d is %s, want %q with %d", i, v, order[i], last[order[i]])
			}
		}
	})
}
