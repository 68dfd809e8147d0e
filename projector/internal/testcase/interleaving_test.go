package testcase_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
	"github.com/penstock-cdc/penstock/projector/internal/testcase"
)

// latest is a pipeline of a view with a defect: its document has the event that came last, of
// whichever aggregate.
type latest struct {
	numbers []int64
	// delivered are the events in the order of their first delivery.
	delivered []int
	rebuilt   bool
}

func (l *latest) Append(document bson.Raw) error {
	l.numbers = append(l.numbers, document.Lookup("payload", "n").AsInt64())
	return nil
}

func (l *latest) Deliver(_ context.Context, events []int) error {
	for _, i := range events {
		if !slices.Contains(l.delivered, i) {
			l.delivered = append(l.delivered, i)
		}
	}
	return nil
}

func (*latest) CrashAfterWrites() {}

func (l *latest) Rebuild(context.Context) error {
	l.rebuilt = true
	return nil
}

func (l *latest) State() testcase.State {
	last := int64(0)
	for i := range l.numbers {
		if l.rebuilt {
			last = l.numbers[i]
		}
	}
	if n := len(l.delivered); n > 0 {
		last = l.numbers[l.delivered[n-1]]
	}
	document := bsontest.Raw(bson.D{{Key: "_id", Value: "k"}, {Key: "parts", Value: 2}, {Key: "last", Value: last}})
	return testcase.State{
		Documents: map[string]map[string]bson.Raw{"v": {"k": document}},
		Homeless:  map[string][]string{"v": {"b", "c"}},
	}
}

const interleavedCase = `
tests:
  - name: the last event counts
    steps:
      - given:
          - {eventType: E, aggregateId: a, payload: {n: 1}}
          - {eventType: E, aggregateId: b, payload: {n: 2}}
          - {eventType: E, aggregateId: a, payload: {n: 3}}
          - {eventType: E, aggregateId: b, payload: {n: 4}}
        expect: {v: {k: {last: 4}}}
        exact: true
`

// TestInterleavedRunsFindOrderOfAggregates checks the runs of views: they keep the order of each
// aggregate, differ from each other and from the run as given, and are said in plain words.
func TestInterleavedRunsFindOrderOfAggregates(t *testing.T) {
	t.Parallel()
	file := testcase.Parse("views_test.yaml", []byte(interleavedCase))
	for _, view := range []bool{true, false} {
		projections := []testcase.Projection{{Name: "v", View: view}}
		file.Resolve(projections, nil)
		if len(file.Problems) > 0 {
			t.Fatal(file.Problems)
		}
		var started []*latest
		runner := &testcase.Runner{
			Start: func() (testcase.Pipeline, error) {
				p := &latest{}
				started = append(started, p)
				return p, nil
			},
			Projections: projections, Seed: 1,
		}
		_, out := run(t, runner, file.Cases[0])
		const says = "  with the events one by one, in the order of lines 7, 9, 6, 8:\n    line 5: v k: last: as given 4, here 3\n"
		if strings.Contains(out, says) != view {
			t.Errorf("with a view: %v, and printed\n%s", view, out)
		}
		if !view {
			continue
		}
		orders := map[string]bool{}
		for _, p := range started {
			order := fmt.Sprint(p.delivered)
			orders[order] = true
			if len(p.delivered) == 4 && (strings.Index(order, "2") < strings.Index(order, "0") || strings.Index(order, "3") < strings.Index(order, "1")) {
				t.Errorf("the events of an aggregate came in the order %s", order)
			}
		}
		for _, order := range []string{"[0 1 2 3]", "[0 2 1 3]", "[1 3 0 2]"} {
			if !orders[order] {
				t.Errorf("no run has the order %s: %v", order, orders)
			}
		}
	}
}

// TestViewsInExpectations checks what a case says about views: their documents have keys, the
// number of parts is the engine's, and a missing document may be due to a part without a key.
func TestViewsInExpectations(t *testing.T) {
	t.Parallel()
	file := testcase.Parse("views_test.yaml", []byte(`
tests:
  - name: much is wrong
    given: [{eventType: E, aggregateId: a, payload: {n: 1}}, {eventType: Both, aggregateId: b, payload: {n: 1}}, {eventType: Both, aggregateId: c, aggregateType: Third, payload: {n: 1}}]
    exact: true
    expect: {v: {k: {last: 2, parts: 2}, other: {last: 1}, gone: null}}
`))
	projections := []testcase.Projection{
		{Name: "v", View: true, AggregateType: "First", EventTypes: []string{"E", "Both"}},
		{Name: "v", View: true, AggregateType: "Second", EventTypes: []string{"Both"}},
	}
	file.Resolve(projections, nil)
	if len(file.Problems) > 0 {
		t.Fatal(file.Problems)
	}
	runner := &testcase.Runner{Start: func() (testcase.Pipeline, error) { return &latest{}, nil }, Projections: projections}
	_, out := run(t, runner, file.Cases[0])
	const want = `FAIL views_test.yaml:3: much is wrong
    line 6: v k: last: expected 2, got 1
    line 6: v other: expected a document, got nothing; there are documents of k; without a key, and so in no document, are the parts of b, c
    note: Both (line 4) has no aggregateType, and there are rules for it of First, Second: name one
`
	if out != want {
		t.Errorf("printed\n%s\nwant\n%s", out, want)
	}
	unknown := testcase.Parse("views_test.yaml", []byte(strings.ReplaceAll(interleavedCase, "{v: {k", "{w: {k")))
	unknown.Resolve(projections, nil)
	if len(unknown.Problems) != 1 || !strings.HasSuffix(unknown.Problems[0].Message, ", only v") {
		t.Errorf("an unknown projection: %v", unknown.Problems)
	}
}
