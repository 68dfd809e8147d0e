package testcase_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
	"github.com/penstock-cdc/penstock/projector/internal/testcase"
)

// sum is a pipeline that adds up the numbers of its events, with a given defect.
type sum struct {
	defect   string
	numbers  []int64
	applied  map[int]bool
	total    int64
	crashing bool
	rebuilt  bool
}

func (s *sum) Append(document bson.Raw) error {
	s.numbers = append(s.numbers, document.Lookup("payload", "n").AsInt64())
	return nil
}

var errDefect = errors.New("the pipeline ends")

func (s *sum) Deliver(_ context.Context, events []int) error {
	if s.defect == "error" && s.crashing {
		return errDefect
	}
	for _, i := range events {
		if s.applied[i] && s.defect != "duplicates" {
			continue
		}
		s.applied[i] = true
		s.total += s.numbers[i]
		if s.defect == "crash" && s.crashing {
			s.total++
		}
	}
	if s.defect == "batches" && (len(events) == 3 || len(events) == 4) {
		s.total++
	}
	return nil
}

func (s *sum) CrashAfterWrites() { s.crashing = true }

func (s *sum) Rebuild(context.Context) error {
	s.rebuilt = true
	for _, n := range s.numbers {
		s.total += n
	}
	if s.defect == "rebuild" {
		s.total++
	}
	return nil
}

func (s *sum) State() testcase.State {
	var n any = s.total
	if s.defect == "type" && s.rebuilt {
		n = float64(s.total)
	}
	document := bsontest.Raw(bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: n}})
	state := testcase.State{Documents: map[string]map[string]bson.Raw{"p": {"a": document}}}
	if s.defect == "parked" && s.crashing {
		state.Parked = []testcase.Parked{{Projection: "p", AggregateID: "a", EventID: 1, Reason: "expression"}}
	}
	return state
}

const sums = `
tests:
  - name: numbers are added up
    aggregateId: a
    steps:
      - given: [{eventType: E, payload: {n: 1}}, {eventType: E, payload: {n: 2}}]
        expect: {p: {a: {n: 3}}}
      - given: [{eventType: E, payload: {n: 3}}, {eventType: E, payload: {n: 4}}, {eventType: E, payload: {n: 5}}, {eventType: E, payload: {n: 6}}, {eventType: E, payload: {n: 7}}]
        expect: {p: {a: {n: 28}}}
`

// run runs a case, and returns its result also as it is printed.
func run(t *testing.T, r *testcase.Runner, c *testcase.Case) (testcase.Result, string) {
	t.Helper()
	result, err := r.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := result.Print(&out); err != nil {
		t.Fatal(err)
	}
	return result, out.String()
}

// TestEachRunFindsItsDefect checks that each run finds the defect that only it can find,
// and that the failure names the run.
func TestEachRunFindsItsDefect(t *testing.T) {
	t.Parallel()
	for defect, says := range map[string]string{
		"":           "",
		"duplicates": "with each event delivered again, after step 1:\n    line 6: p a: n: as given 3, here",
		"crash":      "with a crash after every write, after step 1:\n    line 6: p a: n: as given 3, here 5",
		"error":      "with a crash after every write:\n    line 3: the pipeline ends",
		"parked":     "with a crash after every write, after step 1:\n    line 6: p a: parked: as given not parked, here at event 1 (expression)",
		"rebuild":    "rebuilt from the event store, after step 1:\n    line 6: p a: n: as given 3, here 4",
		"type":       "n: as given 3 (long), here 3 (double)",
		"batches":    "in other batches (--seed 1), after step 2:\n    line 8: p a: n: as given 28, here 29",
	} {
		t.Run(defect, func(t *testing.T) {
			t.Parallel()
			file := testcase.Parse("sums_test.yaml", []byte(sums))
			file.Resolve([]testcase.Projection{{Name: "p"}}, nil)
			if len(file.Problems) > 0 {
				t.Fatal(file.Problems)
			}
			runner := &testcase.Runner{
				Start: func() (testcase.Pipeline, error) { return &sum{defect: defect, applied: map[int]bool{}}, nil },
				Seed:  1,
			}
			result, out := run(t, runner, file.Cases[0])
			if (len(result.Failures) > 0) != (says != "") || !strings.Contains(out, says) {
				t.Errorf("printed\n%s", out)
			}
		})
	}
}

// TestNoDocumentsExpected checks that a projection without expected documents has none in an
// exact case.
func TestNoDocumentsExpected(t *testing.T) {
	t.Parallel()
	file := testcase.Parse("sums_test.yaml", []byte(`
tests:
  - name: no documents
    aggregateId: a
    given: [{eventType: E, payload: {n: 1}}]
    exact: true
    expect: {p: {}}
`))
	file.Resolve([]testcase.Projection{{Name: "p"}}, nil)
	if len(file.Problems) > 0 {
		t.Fatal(file.Problems)
	}
	runner := &testcase.Runner{Start: func() (testcase.Pipeline, error) { return &sum{applied: map[int]bool{}}, nil }}
	if result, out := run(t, runner, file.Cases[0]); len(result.Failures) != 1 || !strings.Contains(out, "p a: expected no document (exact), got") {
		t.Errorf("printed\n%s", out)
	}
}

// TestFailureMessages checks the messages of expectations that are not met.
func TestFailureMessages(t *testing.T) {
	t.Parallel()
	file := testcase.Parse("sums_test.yaml", []byte(`
tests:
  - name: much is wrong
    aggregateId: a
    given: [{eventType: Unknown, payload: {n: 1}}, {eventType: Unknown, aggregateId: c, payload: {n: 0}}]
    exact: true
    expect:
      p:
        a: {m: 1.5, at: 2026-01-02T03:04:05Z, list: [1]}
        b: {n: 1}
        c: null
    expectParked:
      p:
        a: {reason: expression}
`))
	file.Resolve([]testcase.Projection{{Name: "p", EventTypes: []string{"E"}}}, []string{"expression"})
	if len(file.Problems) > 0 {
		t.Fatal(file.Problems)
	}
	runner := &testcase.Runner{
		Start:       func() (testcase.Pipeline, error) { return &sum{applied: map[int]bool{}}, nil },
		Projections: []testcase.Projection{{Name: "p", EventTypes: []string{"E"}}},
	}
	result, out := run(t, runner, file.Cases[0])
	want := `FAIL sums_test.yaml:3: much is wrong
    line 9: p a: m: expected 1.5, got nothing
    line 9: p a: at: expected 2026-01-02T03:04:05Z, got nothing
    line 9: p a: list: expected [1], got nothing
    line 9: p a: n: expected nothing, got 1
    line 10: p b: expected a document, got nothing; there are documents of a
    line 14: p a: expected to be parked, and is not
    note: no projection handles Unknown (line 5)
`
	if out != want {
		t.Errorf("printed\n%s\nwant\n%s", out, want)
	}
	var junit strings.Builder
	if err := testcase.WriteJUnit(&junit, []testcase.Result{result}); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`<testsuites tests="1" failures="1">`, `<testcase name="much is wrong" classname="sums_test.yaml" file="sums_test.yaml" line="3"`, `message="p a: m: expected 1.5, got nothing"`} {
		if !strings.Contains(junit.String(), part) {
			t.Errorf("the XML lacks %s:\n%s", part, junit.String())
		}
	}
}
