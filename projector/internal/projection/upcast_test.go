package projection_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/authoring"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

const upcasting = `
upcasts:
  OrderCreated:
    type: OrderPlaced
    payload: "{'v': 1, 'customer': payload.client}"
  OrderPlaced:
    - when: payload.?v.orValue(1) < 2
      payload: "{'v': 2, 'customer': {'name': payload.customer}}"
    - when: payload.v == 2
      payload: "{'v': 3, 'customer': payload.customer, 'kind': eventType}"
    - when: payload.customer.name == 'gone'
      type: Ignored
  Ignored:
    payload: "{'never': payload.none}"
events:
  Ignored: {type: object}
projections:
  - name: orders
    collection: orders
    on:
      OrderPlaced: {set: {name: payload.customer.name, v: payload.v, type: eventType, whole: "event.payload == payload"}}
  - name: others
    collection: others
    on:
      Other: {set: {a: 1}}
`

func twoProjections(t *testing.T, yaml string) (*projection.Projection, *projection.Projection) {
	t.Helper()
	found, err := projection.Parse("test.yaml", []byte(yaml))
	if err != nil || len(found) != 2 {
		t.Fatalf("%v, %v", found, err)
	}
	return found[0], found[1]
}

func TestUpcastsComeBeforeTheRules(t *testing.T) {
	t.Parallel()
	p, _ := twoProjections(t, upcasting)
	for _, test := range []struct{ eventType, payload, want string }{
		{"OrderCreated", `{"client":"ada"}`, `{"name":"ada","v":3,"type":"OrderPlaced","whole":true}`},
		{"OrderPlaced", `{"customer":"ada"}`, `{"name":"ada","v":3,"type":"OrderPlaced","whole":true}`},
		{"OrderPlaced", `{"v":2,"customer":{"name":"ada"}}`, `{"name":"ada","v":3,"type":"OrderPlaced","whole":true}`},
		{"OrderPlaced", `{"v":3,"customer":{"name":"ada"}}`, `{"name":"ada","v":3,"type":"OrderPlaced","whole":true}`},
		{"OrderPlaced", `{"v":3,"customer":{"name":"gone"}}`, `nil`},
		{"OrderCreated", `{}`, `error: upcast OrderCreated: payload: {'v': 1, 'customer': payload.client}: no such key: client`},
		{"OrderPlaced", `{"v":"x"}`, `error: upcast OrderPlaced: when: payload.?v.orValue(1) < 2`},
	} {
		ev := projectiontest.Event(1, test.eventType, test.payload)
		before := *ev
		f := p.Fold(nil, []*event.Event{ev})
		if ev.EventType != before.EventType || projectiontest.JSON(t, ev.Payload.Value) != projectiontest.JSON(t, before.Payload.Value) {
			t.Fatalf("the event was changed: %+v", ev)
		}
		if want, isError := strings.CutPrefix(test.want, "error: "); isError {
			if f.Err == nil || f.Err.Reason != projection.ReasonExpression || f.Err.EventType != test.eventType || !strings.Contains(f.Err.Error(), want) {
				t.Errorf("%s %s: %v", test.eventType, test.payload, f.Err)
			}
			continue
		}
		got := "nil"
		if f.State() != nil {
			got = projectiontest.JSON(t, f.State())
		}
		if f.Err != nil || got != test.want {
			t.Errorf("%s %s gives %s, %v", test.eventType, test.payload, got, f.Err)
		}
	}
}

// TestUpcastsOfOneViewAreForOneProjection checks that projections which share the view of an
// event do not see each other's upcasts.
func TestUpcastsOfOneViewAreForOneProjection(t *testing.T) {
	t.Parallel()
	with, _ := twoProjections(t, upcasting)
	plain := projectiontest.One(t, `projections: [{name: p, collection: c, on: {OrderCreated: {set: {type: eventType, c: payload.client}}}}]`)
	view := projection.NewEvent(projectiontest.Event(1, "OrderCreated", `{"client":"ada"}`))
	for range 2 {
		for _, p := range []*projection.Projection{plain, with} {
			f := p.FoldWithin(t.Context(), nil, []*projection.Event{view}, projection.Unbounded)
			want := `{"type":"OrderCreated","c":"ada"}`
			if p == with {
				want = `{"name":"ada","v":3,"type":"OrderPlaced","whole":true}`
			}
			if f.Err != nil || projectiontest.JSON(t, f.State()) != want {
				t.Errorf("%s gives %s, %v", p.Name(), f.State(), f.Err)
			}
		}
	}
}

func TestUpcastsArePartOfTheDefinitionsThatSeeThem(t *testing.T) {
	t.Parallel()
	p, other := twoProjections(t, upcasting)
	changed, sameOther := twoProjections(t, strings.Replace(upcasting, "payload.client", "payload.clientName", 1))
	_, without := twoProjections(t, upcasting[strings.Index(upcasting, "projections:"):])
	if p.Hash() == changed.Hash() {
		t.Error("a changed upcast is not a changed definition")
	}
	if other.Hash() != sameOther.Hash() || other.Hash() != without.Hash() {
		t.Error("an upcast changes a projection that does not see its event type")
	}
	if !strings.Contains(p.Definition(), `"semantics":1`) || strings.Contains(p.Definition(), "never") {
		t.Errorf("definition is %s", p.Definition())
	}
	again, err := projection.Compile(p.Definition())
	if err != nil || projection.Redefine(again) != p.Definition() {
		t.Fatalf("%v\n%s", err, p.Definition())
	}
	if f := again.Fold(nil, []*event.Event{projectiontest.Event(1, "OrderCreated", `{"client":"ada"}`)}); f.Err != nil || !strings.Contains(projectiontest.JSON(t, f.State()), `"v":3`) {
		t.Errorf("the stored definition gives %s, %v", f.State(), f.Err)
	}
	if got := strings.Join(p.Sources()[0].EventTypes, " "); got != "OrderCreated OrderPlaced" || !p.Handles(projectiontest.Event(1, "OrderCreated", "")) {
		t.Errorf("event types %s", got)
	}
	want := "- upcasts OrderCreated (1) payload: {'v':1,'customer':payload.client}"
	if difference := authoring.Difference(p.Definition(), changed.Definition()); len(difference) != 2 || difference[0] != want {
		t.Errorf("difference %q", difference)
	}
}

// TestViewSeesUpcasts checks that each source of a view gets the events after their upcasts, and
// that the definition of the view has them.
func TestViewSeesUpcasts(t *testing.T) {
	t.Parallel()
	view := projectiontest.One(t, `
upcasts:
  Made: {type: Placed}
  Placed: {when: "!has(payload.customer)", payload: "{'customer': payload.client}"}
  Unrelated: {payload: "{}"}
views:
  - name: v
    collection: v
    from:
      - {aggregateType: Order, key: state.customer, on: {Placed: {set: {customer: payload.customer}}}}
      - {aggregateType: Quote, key: state.name, on: {Quoted: {set: {name: payload.name}}}}
`)
	stored, err := projection.Compile(view.Definition())
	if err != nil {
		t.Fatal(err)
	}
	if sources := view.Sources(); strings.Join(sources[0].EventTypes, " ") != "Made Placed" || strings.Join(sources[1].EventTypes, " ") != "Quoted" {
		t.Errorf("the sources handle %v", sources)
	}
	for _, p := range []*projection.Projection{view, stored} {
		f := p.Fold(nil, []*event.Event{viewEvent("Order", "o", 1, "Made", bson.D{{Key: "client", Value: "ada"}})})
		if f.Err != nil || !strings.Contains(projectiontest.JSON(t, f.State()), `"customer":"ada"`) {
			t.Errorf("the part is %s, %v", f.State(), f.Err)
		}
	}
}

func TestUpcastsOfAnotherFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	upcasts, rest, _ := strings.Cut(upcasting, "events:\n")
	for name, content := range map[string]string{"a.yaml": "events:\n" + rest, "b.yaml": upcasts} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := projection.Load(folder)
	p, _ := twoProjections(t, upcasting)
	if err != nil || found[0].Hash() != p.Hash() {
		t.Errorf("%v", err)
	}
}

func TestTraceHasUpcasts(t *testing.T) {
	t.Parallel()
	p, _ := twoProjections(t, upcasting)
	a := p.Begin(nil)
	trace, err := a.Trace(projectiontest.Event(1, "OrderCreated", `{"client":"ada"}`))
	if len(trace.Evaluations) == 0 || trace.Evaluations[0].Word != "upcast OrderCreated: payload" || trace.Evaluations[0].Inputs[0].Value != `"ada"` || trace.LeftOut != "" || err != nil {
		t.Errorf("%+v, %v", trace, err)
	}
	trace, err = a.Trace(projectiontest.Event(2, "OrderPlaced", `{"v":3,"customer":{"name":"gone"}}`))
	if trace.LeftOut != "upcasts make Ignored of the event, for which the projection has no handler" || err != nil {
		t.Errorf("%+v, %v", trace, err)
	}
}

// TestUpcastsAreCharged checks that the work of an upcast counts for its event.
func TestUpcastsAreCharged(t *testing.T) {
	t.Parallel()
	p := projectiontest.One(t, `{upcasts: {E: {payload: "{'t': payload.a.map(x, payload.t.substring(x))}"}}, projections: [{name: p, collection: c, on: {E: {set: {t: size(payload.t)}}}}]}`)
	list := strings.TrimSuffix(strings.Repeat("1,", 1000), ",")
	f := p.Fold(nil, []*event.Event{projectiontest.Event(1, "E", `{"a":[`+list+`],"t":"`+strings.Repeat("x", 100_000)+`"}`)})
	if f.Err == nil || !strings.Contains(f.Err.Error(), "evaluation took too long") || f.Err.Reason != projection.ReasonExpression {
		t.Errorf("%.300v", f.Err)
	}
	p = projectiontest.One(t, `{upcasts: {E: {payload: payload}}, projections: [{name: p, collection: c, on: {E: {when: "payload.a.map(x, payload.t.substring(x)).size() > 0", set: {t: "1"}}}}]}`)
	f = p.Fold(nil, []*event.Event{projectiontest.Event(1, "E", `{"a":[`+list+`],"t":"`+strings.Repeat("x", 100_000)+`"}`)})
	if f.Err == nil || !strings.Contains(f.Err.Error(), "evaluation took too long") || strings.Contains(f.Err.Error(), "upcast") {
		t.Errorf("the condition of a rule after an upcast: %.300v", f.Err)
	}
	p = projectiontest.One(t, `{upcasts: {E: {payload: payload.p}}, projections: [{name: p, collection: c, on: {E: {set: {t: payload}}}}]}`)
	f = p.Fold(nil, []*event.Event{projectiontest.Event(1, "E", `{"p":[1]}`)})
	if f.Err == nil || !strings.Contains(f.Err.Error(), "upcast E: payload: payload.p: the result is array, and a payload is a document") {
		t.Errorf("an upcast that gives no document: %v", f.Err)
	}
}

// TestUpcastEventsEqualNewEvents folds old events by upcasts and new events without, at random
// and in batches.
func TestUpcastEventsEqualNewEvents(t *testing.T) {
	t.Parallel()
	const rules = `projections: [{name: p, collection: c, on: {New: {inc: {"by[payload.kind]": payload.n}, push: {l: payload}}}}]`
	plain := projectiontest.One(t, rules)
	p := projectiontest.One(t, `
upcasts:
  Old: {type: Middle, payload: "{'kind': payload.k, 'n': payload.?n.orValue(1)}"}
  Middle: {type: New}
`+rules)
	rapid.Check(t, func(t *rapid.T) {
		var old, upcast []*event.Event
		for i := range rapid.IntRange(1, 8).Draw(t, "events") {
			kind, n := rapid.SampledFrom([]string{"a", "b.c", ""}).Draw(t, "kind"), rapid.Int64Range(1, 3).Draw(t, "n")
			latest := projectiontest.Event(int64(i+1), "New", fmt.Sprintf(`{"kind":%q,"n":{"$numberLong":"%d"}}`, kind, n))
			upcast = append(upcast, latest)
			switch rapid.IntRange(0, 2).Draw(t, "version") {
			case 0:
				old = append(old, projectiontest.Event(int64(i+1), "Old", fmt.Sprintf(`{"k":%q,"n":{"$numberLong":"%d"}}`, kind, n)))
			case 1:
				middle := *latest
				middle.EventType = "Middle"
				old = append(old, &middle)
			default:
				old = append(old, latest)
			}
		}
		want := plain.Fold(nil, upcast)
		document := foldInBatches(t, p, old)
		if want.State().String() != document.String() {
			t.Fatalf("got %s, want %s", document, want.State())
		}
	})
}

// TestUpcastsInManyWays has a trillion chains of upcasts from the first type to the last one.
func TestUpcastsInManyWays(t *testing.T) {
	t.Parallel()
	var upcasts strings.Builder
	for i := range 40 {
		fmt.Fprintf(&upcasts, "T%02d: [{when: payload.a, type: T%02d}, {when: payload.b, type: T%02[2]d}], ", i, i+1)
	}
	p := projectiontest.One(t, "{upcasts: {"+upcasts.String()+"Other: {payload: payload}}, projections: [{name: p, collection: c, on: {T40: {set: {n: '1'}}}}]}")
	if got := p.Definition(); !strings.Contains(got, "T00") || strings.Contains(got, "Other") {
		t.Errorf("the definition is %s", got)
	}
}
