package projection_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/authoring"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

const accounts = `
projections:
  - name: accounts
    collection: accounts
    # The names are in another order than the dependencies.
    compute:
      alarm: state.overdrawn && state.totals.balance < -100
      note: "state.?notes[?0]"
      overdrawn: state.totals.balance < 0
      totals.balance: state.?totals.charged.orValue(0) - state.?totals.paid.orValue(0)
    on:
      Charged: {inc: {totals.charged: payload.n}}
      Paid: {inc: {totals.paid: payload.n}}
      Noted: {push: {notes: payload.n}}
      Cleared: {unset: notes}
      Skipped: {when: payload.n > 100, inc: {totals.paid: 1}}
      Closed: {delete: true}
      Nothing: {pull: {notes: 1}}
`

func TestComputedFieldsFollowEachChange(t *testing.T) {
	t.Parallel()
	p := projectiontest.One(t, accounts)
	for name, test := range map[string]struct{ events, want string }{
		"in the order of dependencies":        {"Charged 5", `{"totals":{"charged":5,"balance":5},"overdrawn":false,"alarm":false}`},
		"after each event":                    {"Charged 5,Paid 200", `{"totals":{"charged":5,"balance":-195,"paid":200},"overdrawn":true,"alarm":true}`},
		"left out events change nothing":      {"Skipped 1,Other 1", `nil`},
		"no document, no field":               {"Nothing 1", `nil`},
		"deleted":                             {"Charged 5,Closed 1", `nil`},
		"created again":                       {"Charged 5,Closed 1,Paid 1", `{"totals":{"paid":1,"balance":-1},"overdrawn":true,"alarm":false}`},
		"an empty optional":                   {"Noted 7", `{"notes":[7],"totals":{"balance":0},"overdrawn":false,"alarm":false,"note":7}`},
		"an empty optional removes the field": {"Noted 7,Cleared 1", `{"totals":{"balance":0},"overdrawn":false,"alarm":false}`},
		"of pushed elements":                  {"Noted 7,Noted 8", `{"notes":[7,8],"totals":{"balance":0},"overdrawn":false,"alarm":false,"note":7}`},
	} {
		f := p.Fold(nil, named(test.events))
		if f.Err != nil {
			t.Errorf("%s: %v", name, f.Err)
			continue
		}
		want := projection.State(nil)
		if test.want != "nil" {
			want = testkit.FromJSON(test.want)
		}
		if listed, more := authoring.Changes(want, f.State()); len(listed)+more > 0 && !sameNumbers(listed) || (want == nil) != (f.State() == nil) {
			t.Errorf("%s: %s, want %s", name, projectiontest.JSON(t, f.State()), test.want)
		}
	}
}

// sameNumbers reports whether all changes are of the width of a number.
func sameNumbers(changes []authoring.FieldChange) bool {
	for _, c := range changes {
		if c.Before != c.After {
			return false
		}
	}
	return true
}

// named makes events from texts such as "Charged 5,Paid 2".
func named(events string) (all []*event.Event) {
	for i, text := range strings.Split(events, ",") {
		eventType, n, _ := strings.Cut(text, " ")
		all = append(all, projectiontest.Event(int64(i+1), eventType, `{"n":{"$numberLong":"`+n+`"}}`))
	}
	return all
}

// TestComputedFieldsDependOnTheDocumentOnly folds at random, in batches, and computes the
// fields in Go.
func TestComputedFieldsDependOnTheDocumentOnly(t *testing.T) {
	t.Parallel()
	p := projectiontest.One(t, accounts)
	rapid.Check(t, func(t *rapid.T) {
		var texts []string
		for range rapid.IntRange(1, 10).Draw(t, "events") {
			texts = append(texts, rapid.SampledFrom([]string{"Charged 70", "Paid 90", "Noted 7", "Cleared 1", "Skipped 101", "Closed 1", "Nothing 7"}).Draw(t, "event"))
		}
		events := named(strings.Join(texts, ","))
		document := projection.State(nil)
		for len(events) > 0 {
			n := rapid.IntRange(1, len(events)).Draw(t, "batch")
			f := p.Fold(document, events[:n])
			if f.Err != nil {
				t.Fatal(f.Err)
			}
			document, events = f.State(), events[n:]
			var got struct {
				Totals           struct{ Charged, Paid, Balance int64 }
				Overdrawn, Alarm bool
				Notes            []int64
				Note             *int64
			}
			if document == nil {
				continue
			}
			if err := bson.Unmarshal(document, &got); err != nil {
				t.Fatal(err)
			}
			balance := got.Totals.Charged - got.Totals.Paid
			if got.Totals.Balance != balance || got.Overdrawn != (balance < 0) || got.Alarm != (balance < -100) || (got.Note != nil) != (len(got.Notes) > 0) {
				t.Fatalf("%v give %s", texts, document)
			}
		}
	})
}

// TestComputedFieldThatFails checks that the event has no effect, and parks its aggregate.
func TestComputedFieldThatFails(t *testing.T) {
	t.Parallel()
	p := projectiontest.One(t, `projections: [{name: p, collection: c, compute: {d: state.a / state.b}, on: {E: {inc: {a: 1, b: payload.b}, push: {l: 1}}}}]`)
	f := p.Fold(testkit.FromJSON(`{"_id":"a-1","lastEventId":0,"a":1,"b":1}`), []*event.Event{projectiontest.Event(1, "E", `{"b":1}`), projectiontest.Event(2, "E", `{"b":-2}`)})
	if f.Folded != 1 || f.Err == nil || f.Err.Reason != projection.ReasonExpression || !strings.Contains(f.Err.Error(), "compute d: state.a / state.b: division by zero") {
		t.Errorf("%+v", f)
	}
	if got := projectiontest.JSON(t, f.State()); got != `{"a":2,"b":2,"l":[1],"d":1}` {
		t.Errorf("state is %s", got)
	}
	large := projectiontest.One(t, `projections: [{name: p, collection: c, compute: {d: "[state.a, state.a]"}, on: {E: {set: {a: payload.a}}}}]`)
	f = large.Fold(nil, []*event.Event{projectiontest.Event(1, "E", `{"a":"`+strings.Repeat("x", 9<<20)+`"}`)})
	if f.Err == nil || f.Err.Reason != projection.ReasonRejected || f.State() != nil {
		t.Errorf("a document that is too large: %v", f.Err)
	}
}

func TestDefinitionOfComputedFields(t *testing.T) {
	t.Parallel()
	p := projectiontest.One(t, accounts)
	if again, err := projection.Compile(p.Definition()); err != nil || projection.Redefine(again) != p.Definition() {
		t.Errorf("%s\n%v", p.Definition(), err)
	}
	without := projectiontest.One(t, strings.Replace(accounts, "      note: \"state.?notes[?0]\"\n", "", 1))
	if difference := authoring.Difference(without.Definition(), p.Definition()); len(difference) != 1 || difference[0] != "+ compute note: state.?notes[?0]" {
		t.Errorf("difference %q", difference)
	}
	if !strings.Contains(p.Definition(), `"semantics":1`) {
		t.Errorf("earlier versions would compile %s", p.Definition())
	}
}

func TestTraceHasComputedFields(t *testing.T) {
	t.Parallel()
	trace, _ := projectiontest.One(t, accounts).Begin(nil).Trace(named("Charged 5")[0])
	var words []string
	for _, e := range trace.Evaluations {
		words = append(words, e.Word+" "+e.Result)
	}
	if got := strings.Join(words, ", "); got != "inc totals.charged 5, compute note , compute totals.balance 5, compute overdrawn false, compute alarm false" {
		t.Error(got)
	}
}

// TestComputedFieldsDoNotReadTheEventPastALoop checks names with a dot, which are not those of
// an enclosing loop.
func TestComputedFieldsDoNotReadTheEventPastALoop(t *testing.T) {
	t.Parallel()
	for expression, says := range map[string]string{
		"[1].map(payload, payload + .payload.x)": "and payload is of the event",
		"[1].map(state, state + .state.c)":       "the value depends on itself",
		"[1].map(payload, payload + 1)":          "",
	} {
		_, err := projection.Parse("p.yaml", []byte(`projections: [{name: p, collection: c, compute: {c: "`+expression+`"}, on: {E: {set: {a: payload.a}}}}]`))
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", expression, err)
		}
	}
}

// TestManyComputedFieldsAreOrdered checks a chain against the order of the names. If each step
// compared all fields with all, it would take minutes.
func TestManyComputedFieldsAreOrdered(t *testing.T) {
	t.Parallel()
	const fields = 2500
	var compute strings.Builder
	for i := range fields {
		fmt.Fprintf(&compute, "f%04d: state.f%04d + 1, ", i, i+1)
	}
	end := inTime(t)
	p := projectiontest.One(t, `projections: [{name: p, collection: c, compute: {`+compute.String()+`}, on: {E: {set: {f`+strconv.Itoa(fields)+`: payload.a}}}}]`)
	end()
	f := p.Fold(nil, []*event.Event{projectiontest.Event(1, "E", `{"a":1}`)})
	if got := projectiontest.JSON(t, f.State()); f.Err != nil || !strings.HasSuffix(got, `"f0000":`+strconv.Itoa(fields+1)+"}") {
		t.Errorf("%v: state is %s", f.Err, got)
	}
}
