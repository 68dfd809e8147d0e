package projection_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

func TestPushSortsAndKeeps(t *testing.T) {
	t.Parallel()
	const top = `{push: {l: {value: "{'p': payload.p, 'n': payload.n}", sort: {n: -1}, keep: 2}}}`
	checkStates(t, []stateTest{
		{"the last two", `{push: {l: {value: payload.n, keep: -2}}}`, `{"l":[1,2]}`, `{"n":3}`, `{"l":[2,3]}`},
		{"the first two", `{push: {l: {value: payload.n, keep: 2}}}`, `{"l":[1,2]}`, `{"n":3}`, `{"l":[1,2]}`},
		{"fewer than two", `{push: {l: {value: payload.n, keep: -2}}}`, ``, `{"n":3}`, `{"l":[3]}`},
		{"a list that is too long", `{push: {l: {value: payload.n, keep: -1}}}`, `{"l":[1,2,3,4]}`, `{"n":5}`, `{"l":[5]}`},
		{"below a field", `{push: {a.l: {value: payload.n, keep: -1}}}`, `{"a":{"l":[1]}}`, `{"n":5}`, `{"a":{"l":[5]}}`},
		{"of a key", `{push: {"a[payload.p]": {value: payload.n, keep: -1}}}`, `{"a":{"x":[1]}}`, `{"n":5,"p":"x"}`, `{"a":{"x":[5]}}`},
		{"sorted", `{push: {l: {value: payload.n, sort: 1}}}`, `{"l":[1,4]}`, `{"n":2.5}`, `{"l":[1,2.5,4]}`},
		{"sorted from the greatest", `{push: {l: {value: payload.n, sort: -1}}}`, `{"l":["b","a"]}`, `{"n":"c"}`, `{"l":["c","b","a"]}`},
		{"top two", top, `{"l":[{"p":"a","n":5},{"p":"b","n":3}]}`, `{"p":"c","n":4}`, `{"l":[{"p":"a","n":5},{"n":4,"p":"c"}]}`},
		{"not among the top two", top, `{"l":[{"p":"a","n":5},{"p":"b","n":3}]}`, `{"p":"c","n":2}`, `{"l":[{"p":"a","n":5},{"p":"b","n":3}]}`},
		{"as good as another", top, `{"l":[{"p":"a","n":5},{"p":"b","n":3}]}`, `{"p":"c","n":3.0}`, `{"l":[{"p":"a","n":5},{"p":"b","n":3}]}`},
		{"with an alias", `{inc: {other: &one 1}, push: {l: {value: payload, sort: {n: *one}}}}`, `{"l":[{"n":2}]}`, `{"n":1}`, `{"other":1,"l":[{"n":1},{"n":2}]}`},
		{"without the field", `{push: {l: {value: payload, sort: {n: 1}}}}`, `{"l":[{"n":1},{"n":null},7,{"m":1}]}`, `{"n":0}`, `{"l":[{"n":null},7,{"m":1},{"n":0},{"n":1}]}`},
		{"an empty optional", `{push: {l: {value: "payload.?n", keep: 1}}}`, `{"l":[2,1]}`, `{}`, `{"l":[2,1]}`},
		{"no order", `{push: {l: {value: payload.n, sort: 1}}}`, `{"l":[1]}`, `{"n":"a"}`, `error: push l: sort the list: string and int have no order`},
		{"no list", `{push: {l: {value: payload.n, keep: 1}}}`, `{"l":5}`, `{"n":"a"}`, `error: the field is int, not an array`},
	})
}

// TestTopNIsTheTopOfAll compares the list with a sorted list of everything that was pushed,
// in any batches.
func TestTopNIsTheTopOfAll(t *testing.T) {
	t.Parallel()
	p := projectiontest.On(t, `{push: {top: {value: "{'at': eventId, 'n': payload.n}", sort: {n: -1}, keep: 3}, last: {value: eventId, keep: -2}}}`)
	rapid.Check(t, func(t *rapid.T) {
		type score struct{ at, n int64 }
		var all []score
		var events []*event.Event
		for i := range rapid.IntRange(1, 10).Draw(t, "events") {
			s := score{int64(i + 1), rapid.Int64Range(0, 4).Draw(t, "n")}
			all = append(all, s)
			events = append(events, projectiontest.Event(s.at, "E", fmt.Sprintf(`{"n":%d}`, s.n)))
		}
		document := foldInBatches(t, p, events)
		last := all[max(0, len(all)-2):]
		best := slices.Clone(all)
		slices.SortStableFunc(best, func(a, b score) int { return cmp.Compare(b.n, a.n) })
		var want []string
		for _, s := range best[:min(3, len(best))] {
			want = append(want, fmt.Sprintf(`{"at":%d,"n":%d}`, s.at, s.n))
		}
		var ids []string
		for _, s := range last {
			ids = append(ids, fmt.Sprint(s.at))
		}
		expected := fmt.Sprintf(`{"last":[%s],"top":[%s]}`, strings.Join(ids, ","), strings.Join(want, ","))
		content := projectiontest.Content(document)
		if got := fmt.Sprintf(`{"last":%s,"top":%s}`, relaxed(t, content["last"]), relaxed(t, content["top"])); got != expected {
			t.Fatalf("got %s, want %s", got, expected)
		}
	})
}

func TestDefinitionOfListForms(t *testing.T) {
	t.Parallel()
	p := projectiontest.On(t, `{push: {a: {value: " payload ", sort: {n: -1}, keep: 2}, b: {value: payload.b, keep: -3}, c: {sort: 1, value: payload.c}, d: {value: payload.d, keep: 3000000}}}`)
	const want = `{"collection":"c","name":"p","on":{"E":{"push":{"a":{"keep":2,"sort":{"n":-1},"value":"payload"},"b":{"keep":-3,"value":"payload.b"},"c":{"sort":1,"value":"payload.c"},"d":{"keep":3000000,"value":"payload.d"}}}},"semantics":1}`
	if p.Definition() != want {
		t.Errorf("definition is %s", p.Definition())
	}
	if again, err := projection.Compile(want); err != nil || projection.Redefine(again) != want {
		t.Errorf("compiled: %v", err)
	}
}

// relaxed returns a value as Extended JSON without the widths of numbers.
func relaxed(t *rapid.T, v bson.RawValue) string {
	text, err := bson.MarshalExtJSON(bson.D{{Key: "v", Value: v}}, false, false)
	if err != nil {
		t.Fatal(err)
	}
	return string(text[len(`{"v":`) : len(text)-1])
}

// TestLongListsAreCharged checks that an event cannot make the projector compare large
// numbers, or copy many elements, for longer than the limits allow.
func TestLongListsAreCharged(t *testing.T) {
	t.Parallel()
	const work, memory = "evaluation took too long", "evaluation needs too much memory"
	small := func(i int) any { return 1e-320 * float64(1+i*7919%100_003) } // with a fraction of a thousand digits
	null := func(int) any { return nil }
	for _, test := range []struct {
		name, handler, payload string
		n                      int
		element                func(int) any
		says                   string
	}{
		{"sort", `{push: {l: {value: payload.n, sort: 1}}}`, `{"n":{"$numberDecimal":"1E-320"}}`, 150_000, func(i int) any {
			if i%2 == 0 {
				return small(i)
			}
			return decimal(t, fmt.Sprintf("%dE-320", 1+i*7919%100_003))
		}, work},
		{"addToSet", `{addToSet: {l: payload.n}}`, `{"n":{"$numberDecimal":"1E-321"}}`, 150_000, small, work},
		{"in", `{set: {a: payload.n in state.l}}`, `{"n":{"$numberDecimal":"1E-321"}}`, 150_000, small, work},
		{"element", `{inc: {"l[id=payload.n].n": 1}}`, `{"n":{"$numberDecimal":"1E-321"}}`, 150_000, func(i int) any { return bson.D{{Key: "id", Value: small(i)}} }, work},
		{"keep of many", `{push: {l: {value: payload.n, keep: -1}}}`, `{"n":1}`, 1_200_000, null, memory},
		{"element of many", `{inc: {"l[id=payload.n].n": 1}}`, `{"n":1}`, 1_200_000, null, memory},
		{"keep", `{push: {l: {value: payload.n, keep: -200000}}}`, `{"n":1}`, 200_000, null, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			list := make(bson.A, test.n)
			for i := range list {
				list[i] = test.element(i)
			}
			document := testkit.Raw(bson.D{{Key: "_id", Value: "a-1"}, {Key: "lastEventId", Value: int64(0)}, {Key: "l", Value: list}})
			// In a bubble no time passes, so the limit of the time is not reached first.
			synctest.Test(t, func(t *testing.T) {
				f := projectiontest.On(t, test.handler).Fold(document, []*event.Event{projectiontest.Event(1, "E", test.payload)})
				if (f.Err == nil) != (test.says == "") || f.Err != nil && !strings.Contains(f.Err.Error(), test.says) {
					t.Errorf("the event has the error %v, want %q", f.Err, test.says)
				}
			})
		})
	}
}
