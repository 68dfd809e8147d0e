package projection_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

const explained = `
projections:
  - name: orders
    collection: orders
    aggregateType: Thing
    on:
      Placed:
        set: {customer: payload.customer, address: payload.address, note: "payload.?note"}
      Added:
        when: payload.quantity > 0 && state.status != 'closed'
        inc: {items: payload.quantity}
        push: {lines: "{'sku': payload.sku}"}
        set: {address.city: "payload.?city.orValue(state.address.city)"}
      Closed:
        set: {status: "'closed'", big: "state.lines.filter(state, state.sku != 'x').size() + size(event.payload.tags)"}
      Removed: {delete: true}
`

// TestExplainReportsTheExpressionsThatRan checks for each event which expressions are
// reported, with which fields, and how the document changed.
func TestExplainReportsTheExpressionsThatRan(t *testing.T) {
	t.Parallel()
	other := projectiontest.Event(t, 5, "Added", `{"quantity":1}`)
	other.AggregateType = "Other"
	events := []*event.Event{
		projectiontest.Event(t, 1, "Placed", `{"customer":"Ada","address":{"city":"Bonn","zip":"1"}}`),
		projectiontest.Event(t, 2, "Added", `{"quantity":2,"sku":"a"}`),
		projectiontest.Event(t, 2, "Added", `{"quantity":2,"sku":"a"}`),
		projectiontest.Event(t, 3, "Added", `{"quantity":0,"sku":"b"}`),
		projectiontest.Event(t, 4, "Renamed", `{}`),
		other,
		projectiontest.Event(t, 6, "Added", `{"quantity":1,"sku":"c","city":"Köln"}`),
		projectiontest.Event(t, 7, "Closed", `{"tags":["x"]}`),
		projectiontest.Event(t, 8, "Removed", ``),
		projectiontest.Event(t, 9, "Added", `{"quantity":"many","sku":"d"}`),
	}
	want := []projection.Step{
		{
			EventID: 1, EventType: "Placed", Outcome: projection.Applied, Created: true,
			Evaluations: []projection.Evaluation{
				{Word: "set customer", Expression: "payload.customer", Inputs: []projection.Input{{"payload.customer", `"Ada"`}}, Result: `"Ada"`},
				{Word: "set address", Expression: "payload.address", Inputs: []projection.Input{{"payload.address", `{"city":"Bonn","zip":"1"}`}}, Result: `{"city":"Bonn","zip":"1"}`},
				{Word: "set note", Expression: "payload.?note", Inputs: []projection.Input{{Path: "payload.note"}}},
			},
			Changes: []projection.FieldChange{{"customer", "", `"Ada"`}, {"address", "", `{"city":"Bonn","zip":"1"}`}},
		},
		{
			EventID: 2, EventType: "Added", Outcome: projection.Applied,
			Evaluations: []projection.Evaluation{
				{Word: "when", Expression: "payload.quantity > 0 && state.status != 'closed'", Inputs: []projection.Input{{"payload.quantity", "2"}, {Path: "state.status"}}, Result: "true"},
				{Word: "inc items", Expression: "payload.quantity", Inputs: []projection.Input{{"payload.quantity", "2"}}, Result: "2"},
				{Word: "push lines", Expression: "{'sku': payload.sku}", Inputs: []projection.Input{{"payload.sku", `"a"`}}, Result: `{"sku":"a"}`},
				{Word: "set address.city", Expression: "payload.?city.orValue(state.address.city)", Inputs: []projection.Input{{Path: "payload.city"}, {"state.address.city", `"Bonn"`}}, Result: `"Bonn"`},
			},
			Changes: []projection.FieldChange{{"items", "", "2"}, {"lines", "", `[{"sku":"a"}]`}},
		},
		{EventID: 2, EventType: "Added", Outcome: projection.Duplicate, Why: "the read model has the events up to 2"},
		{
			EventID: 3, EventType: "Added", Outcome: projection.LeftOut, Why: "the condition is false",
			Evaluations: []projection.Evaluation{{Word: "when", Expression: "payload.quantity > 0 && state.status != 'closed'", Inputs: []projection.Input{{"payload.quantity", "0"}, {Path: "state.status"}}, Result: "false"}},
		},
		{EventID: 4, EventType: "Renamed", Outcome: projection.LeftOut, Why: "the projection has no handler for the event type"},
		{EventID: 5, EventType: "Added", Outcome: projection.LeftOut, Why: "the aggregate type is Other, and the projection takes Thing"},
		{
			EventID: 6, EventType: "Added", Outcome: projection.Applied,
			Changes: []projection.FieldChange{{"address.city", `"Bonn"`, `"Köln"`}, {"items", "2", "3"}, {"lines[1]", "", `{"sku":"c"}`}},
		},
		{
			EventID: 7, EventType: "Closed", Outcome: projection.Applied,
			Evaluations: []projection.Evaluation{
				{Word: "set status", Expression: "'closed'", Result: `"closed"`},
				{
					Word: "set big", Expression: "state.lines.filter(state, state.sku != 'x').size() + size(event.payload.tags)",
					Inputs: []projection.Input{{"state.lines", `[{"sku":"a"},{"sku":"c"}]`}, {"event.payload.tags", `["x"]`}}, Result: "3",
				},
			},
			Changes: []projection.FieldChange{{"status", "", `"closed"`}, {"big", "", "3"}},
		},
		{EventID: 8, EventType: "Removed", Outcome: projection.Applied, Deleted: true},
		{EventID: 9, EventType: "Added", Outcome: projection.Failed},
	}
	a := projectiontest.One(t, explained).Begin(nil, 0)
	for i, ev := range events {
		got := a.Explain(ev)
		if got.Outcome == projection.Failed {
			last := got.Evaluations[len(got.Evaluations)-1]
			if last.Word != "when" || !strings.Contains(last.Error, "> does not take string and int") || got.Err == nil || got.Err.Reason != projection.ReasonExpression {
				t.Errorf("the failing event: %+v, %v", last, got.Err)
			}
			got.Evaluations, got.Err = nil, nil
		}
		got.Timestamp = want[i].Timestamp
		if want[i].Evaluations == nil {
			got.Evaluations = nil
		}
		if !reflect.DeepEqual(got, want[i]) {
			t.Errorf("event %d:\n got %s\nwant %s", ev.EventID, indented(t, got), indented(t, want[i]))
		}
	}
	if a.State() != nil || a.Last() != 8 {
		t.Errorf("the fold ends at event %d with %s", a.Last(), a.State())
	}
}

// TestExplainDoesNotChangeTheFold checks that explaining changes nothing about the fold.
func TestExplainDoesNotChangeTheFold(t *testing.T) {
	t.Parallel()
	p := projectiontest.One(t, explained)
	one, all := p.Begin(nil, 0), p.Begin(nil, 0)
	events := []*event.Event{
		projectiontest.Event(t, 1, "Placed", `{"customer":"Ada","address":{"city":"Bonn"}}`),
		projectiontest.Event(t, 2, "Added", `{"quantity":2,"sku":"a"}`), projectiontest.Event(t, 3, "Closed", `{"tags":[]}`),
	}
	for _, ev := range events {
		one.Explain(ev)
	}
	if err := all.Add(events); err != nil || projectiontest.JSON(t, one.State()) != projectiontest.JSON(t, all.State()) {
		t.Errorf("explained: %s, folded: %s, %v", one.State(), all.State(), err)
	}
}

// TestExplainGo checks that a projection in Go is explained by its changes.
func TestExplainGo(t *testing.T) {
	t.Parallel()
	p, err := projection.New(projection.Declaration{Name: "p", Collection: "c", Apply: func(_ projection.State, ev *event.Event) (projection.State, error) {
		return projectiontest.Raw(t, `{"n":1,"last":"`+ev.EventType+`"}`), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	a := p.Begin(nil, 0)
	a.Explain(projectiontest.Event(t, 1, "A", ""))
	got := a.Explain(projectiontest.Event(t, 2, "B", ""))
	if want := []projection.FieldChange{{"last", `"A"`, `"B"`}}; got.Outcome != projection.Applied || !reflect.DeepEqual(got.Changes, want) || got.Evaluations != nil {
		t.Errorf("got %s", indented(t, got))
	}
}

// TestExplainCutsLongValues bounds what an explanation keeps of an event.
func TestExplainCutsLongValues(t *testing.T) {
	t.Parallel()
	step := projectiontest.On(t, "{set: {x: payload.x}}").Begin(nil, 0).Explain(projectiontest.Event(t, 1, "E", `{"x":"`+strings.Repeat("ä", 100_000)+`"}`))
	if n := len(indented(t, step)); n > 5000 || !strings.Contains(indented(t, step), "ä…") {
		t.Errorf("the explanation has %d bytes", n)
	}
}

// TestFoldWithoutTraceAllocatesNoMore checks that the hook for explanations adds no
// allocations to the engine: the bound is the number of allocations before the hook
// existed.
func TestFoldWithoutTraceAllocatesNoMore(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes pools give away what they hold")
	}
	p := projectiontest.One(t, projectiontest.Orders)
	events := make([]*event.Event, 50)
	for i := range events {
		events[i] = projectiontest.Event(t, int64(i+1), "ItemAdded", `{"customer":"Jane Doe","sku":"s","quantity":2,"price":1999}`)
	}
	allocs := testing.AllocsPerRun(20, func() {
		if f := p.Fold(nil, events); f.Err != nil {
			t.Fatal(f.Err)
		}
	})
	if perEvent := allocs / float64(len(events)); perEvent > 42.5 {
		t.Errorf("an event costs %.2f allocations", perEvent)
	}
}

func indented(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
