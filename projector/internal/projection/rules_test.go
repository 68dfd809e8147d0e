package projection_test

import (
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

const wards = `
projections:
  - name: wards
    collection: wards
    on:
      BedAdded | BedOpened: {addToSet: {beds: payload.bed}}
      BedRemoved:
        - when: state.?beds.orValue([]) == [payload.bed]
          delete: true
        - when: payload.bed in state.?beds.orValue([])
          pull: {beds: payload.bed}
        - when: payload.bed == 'bad' && payload.none > 0
          unset: beds
`

// TestFirstRuleThatHoldsActs checks that one rule acts, even if several hold.
func TestFirstRuleThatHoldsActs(t *testing.T) {
	t.Parallel()
	p := projectiontest.One(t, wards)
	if !p.Deletes() {
		t.Error("the projection does not declare that it deletes")
	}
	for _, test := range []struct{ before, eventType, bed, after string }{
		{`{"beds":["a"]}`, "BedAdded", "b", `{"beds":["a","b"]}`},
		{`{"beds":["a"]}`, "BedOpened", "b", `{"beds":["a","b"]}`},
		{`{"beds":["a","b"]}`, "BedRemoved", "b", `{"beds":["a"]}`},
		{`{"beds":["a"]}`, "BedRemoved", "a", "nil"}, // both rules hold
		{`{"beds":["a"]}`, "BedRemoved", "z", `{"beds":["a"]}`},
		{`{"beds":["a"]}`, "BedRemoved", "bad", "error: when: payload.bed == 'bad' && payload.none > 0: no such key"},
		{`{"beds":["a"]}`, "BedAdded | BedOpened", "b", `{"beds":["a"]}`},
	} {
		before := testkit.FromJSON(strings.Replace(test.before, "{", `{"_id":"a-1","lastEventId":{"$numberLong":"7"},`, 1))
		f := p.Fold(before, []*event.Event{projectiontest.Event(8, test.eventType, `{"bed":"`+test.bed+`"}`)})
		got := projectiontest.JSON(t, f.State())
		if want, isError := strings.CutPrefix(test.after, "error: "); isError {
			if f.Err == nil || f.Err.Reason != projection.ReasonExpression || !strings.Contains(f.Err.Error(), want) {
				t.Errorf("%s %s: %v", test.eventType, test.bed, f.Err)
			}
		} else if f.Err != nil || got != test.after {
			t.Errorf("%s %s gives %s, %v", test.eventType, test.bed, got, f.Err)
		}
	}
}

func TestDefinitionOfSeveralRules(t *testing.T) {
	t.Parallel()
	p := projectiontest.One(t, wards)
	if again, err := projection.Compile(p.Definition()); err != nil || projection.Redefine(again) != p.Definition() {
		t.Errorf("%s\n%v", p.Definition(), err)
	}
	if !strings.Contains(p.Definition(), `"semantics":1`) {
		t.Errorf("earlier versions would compile %s", p.Definition())
	}
	one := projectiontest.One(t, "projections: [{name: p, collection: c, on: {A: {set: {a: eventId}}, B: {set: {a: eventId}}}}]")
	for _, same := range []string{
		"projections: [{name: p, collection: c, on: {A | B: {set: {a: eventId}}}}]",
		"projections: [{name: p, collection: c, on: {A: [{set: {a: eventId}}], B: {set: {a: eventId}}}}]",
		"projections: [{name: p, collection: c, on: {A: &a {set: {a: &x eventId}}, B: *a}}]",
		"projections: [{name: p, collection: c, on: {A: {set: {a: &x eventId}}, B: {set: {a: *x}}}}]",
	} {
		if p := projectiontest.One(t, same); p.Definition() != one.Definition() {
			t.Errorf("%s has another definition: %s", same, p.Definition())
		}
	}
	swapped := projectiontest.One(t, "projections: [{name: p, collection: c, on: {A: [{when: eventId > 1, set: {a: 1}}, {when: eventId > 2, set: {a: 2}}]}}]")
	if other := projectiontest.One(t, "projections: [{name: p, collection: c, on: {A: [{when: eventId > 2, set: {a: 2}}, {when: eventId > 1, set: {a: 1}}]}}]"); swapped.Hash() == other.Hash() {
		t.Error("the order of rules is not part of the definition")
	}
	// The names of types in .NET have a comma.
	dotnet := projectiontest.One(t, `projections: [{name: p, collection: c, on: {"Shop.OrderPlaced, Shop": {set: {a: 1}}}}]`)
	if types := dotnet.Sources()[0].EventTypes; len(types) != 1 || types[0] != "Shop.OrderPlaced, Shop" {
		t.Errorf("event types %q", types)
	}
}

func TestTraceSaysThatNoRuleHolds(t *testing.T) {
	t.Parallel()
	a := projectiontest.One(t, wards).Begin(nil)
	for i, test := range []struct{ eventType, why string }{{"BedRemoved", "the condition is false"}, {"BedAdded", ""}, {"BedRemoved", ""}} {
		trace, err := a.Trace(projectiontest.Event(int64(i+1), test.eventType, `{"bed":"a"}`))
		if trace.LeftOut != test.why || err != nil {
			t.Errorf("event %d: %+v, %v", i+1, trace, err)
		}
	}
}

func TestKeysCanBeAliases(t *testing.T) {
	t.Parallel()
	const rules = `projections: [{name: p, collection: c, on: {A: [{&w when: eventId > 2, set: {a: "1"}}, {*w : eventId > 1, set: {a: "2"}}, {set: {a: "3"}}]}}]`
	plain := strings.NewReplacer("&w ", "", "*w ", "when").Replace(rules)
	if projectiontest.One(t, rules).Hash() != projectiontest.One(t, plain).Hash() {
		t.Error("the alias has another meaning than the key")
	}
}
