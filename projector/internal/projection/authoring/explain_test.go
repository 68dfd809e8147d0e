package authoring_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/authoring"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
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
	other := projectiontest.Event(5, "Added", `{"quantity":1}`)
	other.AggregateType = "Other"
	events := []*event.Event{
		projectiontest.Event(1, "Placed", `{"customer":"Ada","address":{"city":"Bonn","zip":"1"}}`),
		projectiontest.Event(2, "Added", `{"quantity":2,"sku":"a"}`),
		projectiontest.Event(2, "Added", `{"quantity":2,"sku":"a"}`),
		projectiontest.Event(3, "Added", `{"quantity":0,"sku":"b"}`),
		projectiontest.Event(4, "Renamed", `{}`),
		other,
		projectiontest.Event(6, "Added", `{"quantity":1,"sku":"c","city":"Köln"}`),
		projectiontest.Event(7, "Closed", `{"tags":["x"]}`),
		projectiontest.Event(8, "Removed", ``),
		projectiontest.Event(9, "Added", `{"quantity":"many","sku":"d"}`),
	}
	want := []authoring.Step{
		{
			EventID: 1, EventType: "Placed", Outcome: authoring.Applied, Created: true,
			Evaluations: []projection.Evaluation{
				{Word: "set customer", Expression: "payload.customer", Inputs: []projection.Input{{Path: "payload.customer", Value: `"Ada"`}}, Result: `"Ada"`},
				{Word: "set address", Expression: "payload.address", Inputs: []projection.Input{{Path: "payload.address", Value: `{"city":"Bonn","zip":"1"}`}}, Result: `{"city":"Bonn","zip":"1"}`},
				{Word: "set note", Expression: "payload.?note", Inputs: []projection.Input{{Path: "payload.note"}}},
			},
			Changes: []authoring.FieldChange{{"customer", "", `"Ada"`}, {"address", "", `{"city":"Bonn","zip":"1"}`}},
		},
		{
			EventID: 2, EventType: "Added", Outcome: authoring.Applied,
			Evaluations: []projection.Evaluation{
				{Word: "when", Expression: "payload.quantity > 0 && state.status != 'closed'", Inputs: []projection.Input{{Path: "payload.quantity", Value: "2"}, {Path: "state.status"}}, Result: "true"},
				{Word: "inc items", Expression: "payload.quantity", Inputs: []projection.Input{{Path: "payload.quantity", Value: "2"}}, Result: "2"},
				{Word: "push lines", Expression: "{'sku': payload.sku}", Inputs: []projection.Input{{Path: "payload.sku", Value: `"a"`}}, Result: `{"sku":"a"}`},
				{Word: "set address.city", Expression: "payload.?city.orValue(state.address.city)", Inputs: []projection.Input{{Path: "payload.city"}, {Path: "state.address.city", Value: `"Bonn"`}}, Result: `"Bonn"`},
			},
			Changes: []authoring.FieldChange{{"items", "", "2"}, {"lines", "", `[{"sku":"a"}]`}},
		},
		{EventID: 2, EventType: "Added", Outcome: authoring.Duplicate, Why: "the read model has the events up to 2"},
		{
			EventID: 3, EventType: "Added", Outcome: authoring.LeftOut, Why: "the condition is false",
			Evaluations: []projection.Evaluation{{Word: "when", Expression: "payload.quantity > 0 && state.status != 'closed'", Inputs: []projection.Input{{Path: "payload.quantity", Value: "0"}, {Path: "state.status"}}, Result: "false"}},
		},
		{EventID: 4, EventType: "Renamed", Outcome: authoring.LeftOut, Why: "the projection has no handler for the event type"},
		{EventID: 5, EventType: "Added", Outcome: authoring.LeftOut, Why: "the aggregate type is Other, and the projection takes Thing"},
		{
			EventID: 6, EventType: "Added", Outcome: authoring.Applied,
			Changes: []authoring.FieldChange{{"address.city", `"Bonn"`, `"Köln"`}, {"items", "2", "3"}, {"lines[1]", "", `{"sku":"c"}`}},
		},
		{
			EventID: 7, EventType: "Closed", Outcome: authoring.Applied,
			Evaluations: []projection.Evaluation{
				{Word: "set status", Expression: "'closed'", Result: `"closed"`},
				{
					Word: "set big", Expression: "state.lines.filter(state, state.sku != 'x').size() + size(event.payload.tags)",
					Inputs: []projection.Input{{Path: "state.lines", Value: `[{"sku":"a"},{"sku":"c"}]`}, {Path: "event.payload.tags", Value: `["x"]`}}, Result: "3",
				},
			},
			Changes: []authoring.FieldChange{{"status", "", `"closed"`}, {"big", "", "3"}},
		},
		{EventID: 8, EventType: "Removed", Outcome: authoring.Applied, Deleted: true},
		{EventID: 9, EventType: "Added", Outcome: authoring.Failed},
	}
	a := projectiontest.One(t, explained).Begin(nil)
	for i, ev := range events {
		got := authoring.Explain(a, ev)
		if got.Outcome == authoring.Failed {
			last := got.Evaluations[len(got.Evaluations)-1]
			if last.Word != "when" || !strings.Contains(last.Error, "> does not take string and int") || got.Err == nil || got.Error != got.Err.Err.Error() || got.Err.Reason != projection.ReasonExpression {
				t.Errorf("the failing event: %+v, %v", last, got.Err)
			}
			got.Evaluations, got.Err, got.Error = nil, nil, ""
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
	one, all := p.Begin(nil), p.Begin(nil)
	events := []*event.Event{
		projectiontest.Event(1, "Placed", `{"customer":"Ada","address":{"city":"Bonn"}}`),
		projectiontest.Event(2, "Added", `{"quantity":2,"sku":"a"}`), projectiontest.Event(3, "Closed", `{"tags":[]}`),
	}
	for _, ev := range events {
		authoring.Explain(one, ev)
	}
	if err := all.Add(events); err != nil || projectiontest.JSON(t, one.State()) != projectiontest.JSON(t, all.State()) {
		t.Errorf("explained: %s, folded: %s, %v", one.State(), all.State(), err)
	}
}

// TestExplainGo checks that a projection in Go is explained by its changes.
func TestExplainGo(t *testing.T) {
	t.Parallel()
	p, err := projection.New(projection.Declaration{Name: "p", Collection: "c", Apply: func(_ projection.State, ev *event.Event) (projection.State, error) {
		return testkit.FromJSON(`{"n":1,"last":"` + ev.EventType + `"}`), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	a := p.Begin(nil)
	authoring.Explain(a, projectiontest.Event(1, "A", ""))
	got := authoring.Explain(a, projectiontest.Event(2, "B", ""))
	if want := []authoring.FieldChange{{"last", `"A"`, `"B"`}}; got.Outcome != authoring.Applied || !reflect.DeepEqual(got.Changes, want) || got.Evaluations != nil {
		t.Errorf("got %s", indented(t, got))
	}
}

// TestExplainCutsLongValues bounds what an explanation keeps of an event.
func TestExplainCutsLongValues(t *testing.T) {
	t.Parallel()
	step := authoring.Explain(projectiontest.On(t, "{set: {x: payload.x}}").Begin(nil), projectiontest.Event(1, "E", `{"x":"`+strings.Repeat("ä", 100_000)+`"}`))
	if n := len(indented(t, step)); n > 5000 || !strings.Contains(indented(t, step), "ä…") {
		t.Errorf("the explanation has %d bytes", n)
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
