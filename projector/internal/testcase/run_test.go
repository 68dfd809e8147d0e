package testcase_test

import (
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
	"github.com/penstock-cdc/penstock/projector/internal/testcase"
)

// run runs the first case of a file, and returns its result also as it is printed.
func run(t *testing.T, projections []*projection.Projection, text string) (testcase.Result, string) {
	t.Helper()
	file := testcase.Parse("a_test.yaml", []byte(text), event.DefaultFields())
	file.Resolve(projections, []string{"expression"})
	if len(file.Problems) > 0 {
		t.Fatal(file.Problems)
	}
	result, err := file.Cases[0].Run(t.Context(), projections)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := result.Print(&out); err != nil {
		t.Fatal(err)
	}
	return result, out.String()
}

const counted = `
tests:
  - name: events are counted
    aggregateId: a
    steps:
      - given: [{eventType: E}, {eventType: E}]
        expect: {calls: {a: {n: 2, lastEventId: 2}}}
      - given: [{eventType: E}]
        expect: {calls: {a: {n: 3}}}
`

// TestSecondFoldFindsImpureProjection checks that a case fails if a projection in Go depends on
// more than its state and its event: on calls before, or on how its events are batched.
func TestSecondFoldFindsImpureProjection(t *testing.T) {
	t.Parallel()
	calls := int32(0)
	for name, test := range map[string]struct {
		n    func(before int32) any
		says string
	}{
		"a pure function":              {n: func(before int32) any { return before + 1 }},
		"a function that counts calls": {n: func(int32) any { calls++; return calls }, says: "  folded again, the result differs: the projection is no pure function of its events, after step 1:\n    line 6: calls a: n: in one batch 2, event by event 5"},
		"a function with another type": {n: func(before int32) any {
			if calls++; calls > 10 {
				return float64(before + 1)
			}
			calls += 3
			return before + 1
		}, says: "n: in one batch 3, event by event 3.0"},
	} {
		calls = 0
		p, err := projection.New(projection.Declaration{Name: "calls", Collection: "calls", Apply: func(state projection.State, _ *event.Event) (projection.State, error) {
			before, _ := state.Lookup("n").AsInt64OK()
			return bson.Marshal(bson.D{{Key: "n", Value: test.n(int32(before))}})
		}})
		if err != nil {
			t.Fatal(err)
		}
		result, out := run(t, []*projection.Projection{p}, counted)
		if (len(result.Failures) > 0) != (test.says != "") || !strings.Contains(out, test.says) {
			t.Errorf("%s: printed\n%s", name, out)
		}
	}
}

// TestParkedAggregateKeepsItsDocument checks that an event that fails in the middle of a batch
// parks its aggregate, with the document of the events before it.
func TestParkedAggregateKeepsItsDocument(t *testing.T) {
	t.Parallel()
	projections := projectiontest.All(t, `
projections:
  - {name: sums, collection: sums, on: {E: {inc: {n: payload.n}}}}
`)
	result, out := run(t, projections, `
tests:
  - name: a text cannot be added
    given:
      - {eventType: E, aggregateId: a, payload: {n: 1}}
      - {eventType: E, aggregateId: a, payload: {n: much}}
      - {eventType: E, aggregateId: b, payload: {n: 2}}
      - {eventType: E, aggregateId: a, payload: {n: 4}}
    expect: {sums: {a: {n: 1, lastEventId: 1}, b: {n: 2}}}
    expectParked: {sums: {a: {eventId: 2}}}
    exact: true
`)
	if len(result.Failures) > 0 {
		t.Errorf("printed\n%s", out)
	}
}

// TestRejectedPartIsParked checks that an event whose part a view's document cannot have parks
// its aggregate, and that the events before it count, whatever the batches are.
func TestRejectedPartIsParked(t *testing.T) {
	t.Parallel()
	projections := projectiontest.All(t, `
views:
  - name: v
    collection: v
    from:
      - aggregateType: A
        key: "'all'"
        on: {E: {set: {n: payload.n}}}
        totals: {sum: {sum: part.n}}
`)
	const large = "9223372036854775807"
	result, out := run(t, projections, `
tests:
  - name: the sum is too large
    aggregateType: A
    given:
      - {eventType: E, aggregateId: a, payload: {n: `+large+`}}
      - {eventType: E, aggregateId: b, payload: {n: 0}}
      - {eventType: E, aggregateId: b, payload: {n: 1}}
    expect: {v: {all: {sum: `+large+`, parts: 2}}}
    expectParked: {v: {b: {eventId: 2, error: document all}}}
`)
	if len(result.Failures) > 0 {
		t.Errorf("printed\n%s", out)
	}
}

// TestFailureMessages checks the messages of expectations that are not met.
func TestFailureMessages(t *testing.T) {
	t.Parallel()
	projections := projectiontest.All(t, `
projections:
  - {name: p, collection: p, on: {E: {inc: {n: payload.n}}}}
  - {name: none, collection: none, on: {Other: {set: {n: payload.n}}}}
`)
	_, out := run(t, projections, `
tests:
  - name: much is wrong
    given: [{eventType: E, aggregateId: a, payload: {n: 1}}, {eventType: Unknown, aggregateId: c}, {eventType: E, aggregateId: d, payload: {n: 1}}]
    exact: true
    expect:
      p:
        a: {m: 1.5, at: 2026-01-02T03:04:05Z, list: [1]}
        b: {n: 1}
        c: null
      none: {}
    expectParked:
      p:
        a: {reason: expression}
`)
	want := `FAIL a_test.yaml:3: much is wrong
    line 8: p a: m: expected 1.5, got nothing
    line 8: p a: at: expected {"$date":"2026-01-02T03:04:05Z"}, got nothing
    line 8: p a: list: expected [1], got nothing
    line 8: p a: n: expected nothing, got 1
    line 9: p b: expected a document, got nothing; there are documents of a, d
    line 3: p d: expected no document (exact), got {"n":1}
    line 14: p a: expected to be parked, and is not
    note: no projection handles Unknown (line 4)
`
	if out != want {
		t.Errorf("printed\n%s\nwant\n%s", out, want)
	}
}

// TestViewsInExpectations checks what a failure says about views: a missing document may be due
// to a part without a key.
func TestViewsInExpectations(t *testing.T) {
	t.Parallel()
	projections := projectiontest.All(t, `
views:
  - name: v
    collection: v
    from:
      - {aggregateType: First, key: "state.?k", keep: fields, on: {E: {set: {k: "payload.?k", last: payload.n}}, Both: {set: {last: payload.n}}}}
      - {aggregateType: Second, key: aggregateId, on: {Both: {set: {n: payload.n}}}, totals: {count: {count: true}}}
`)
	_, out := run(t, projections, `
tests:
  - name: much is wrong
    given: [{eventType: E, aggregateId: a, payload: {n: 1, k: k}}, {eventType: E, aggregateId: b, payload: {n: 1}}, {eventType: Both, aggregateId: d, payload: {n: 1}}]
    expect: {v: {k: {last: 2, parts: 1}, other: {last: 1}, gone: null}}
`)
	const want = `FAIL a_test.yaml:3: much is wrong
    line 5: v k: last: expected 2, got 1
    line 5: v other: expected a document, got nothing; there are documents of k; without a key, and so in no document, are the parts of b
    note: Both (line 4) has no aggregateType, and there are rules for it of First, Second: name one
`
	if out != want {
		t.Errorf("printed\n%s\nwant\n%s", out, want)
	}
}

// An integer is the same id wherever it is written.
func TestIntegersAreIDsInOneForm(t *testing.T) {
	t.Parallel()
	projections := projectiontest.All(t, `
projections: [{name: p, collection: p, on: {E: {set: {n: payload.n}}}}]
`)
	for id, key := range map[string]string{"0x10": "0x10", "16": "0x10", `"16"`: "16", `"0x10"`: `"0x10"`} {
		result, out := run(t, projections, fmt.Sprintf(`
tests:
  - name: hexadecimal
    given: [{eventType: E, aggregateId: %s, payload: {n: 1}}]
    expect: {p: {%s: {n: 1}}}
`, id, key))
		if len(result.Failures) > 0 {
			t.Errorf("aggregateId: %s, and the key %s: %s", id, key, out)
		}
	}
}
