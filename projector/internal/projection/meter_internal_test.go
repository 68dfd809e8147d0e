package projection

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

// TestLimits checks which limit ends an event, and that the next one begins anew.
func TestLimits(t *testing.T) {
	for name, test := range map[string]struct {
		spend func(m *meter)
		want  error
	}{
		"work":       {func(m *meter) { m.spend(workLimit, 0); m.spend(1, 0) }, errWork},
		"memory":     {func(m *meter) { m.spend(0, memoryLimit); m.spend(0, 1) }, errMemory},
		"once again": {func(m *meter) { defer func() { _ = recover(); m.spend(1, 0) }(); m.spend(workLimit+1, 0) }, errWork},
		"free":       {func(m *meter) { m.free = true; m.spend(workLimit+1, memoryLimit+1) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &meter{}
				for range 2 {
					m.begin(t.Context(), 0)
					if got := exceeded(m, test.spend); !errors.Is(got, test.want) {
						t.Errorf("the limit is %v, want %v", got, test.want)
					}
					m.end()
				}
			})
		})
	}
}

// exceeded returns the limit that a function exceeds.
func exceeded(m *meter, spend func(*meter)) (limit error) {
	defer func() {
		if r := recover(); r != nil {
			limit = r.(limitError).error
		}
	}()
	spend(m)
	return nil
}

// TestLargeEventWaitsForAnotherOnlyForSomeTime offers a large event while another one is
// evaluated.
func TestLargeEventWaitsForAnotherOnlyForSomeTime(t *testing.T) {
	large <- struct{}{}
	defer func() { <-large }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	m := &meter{}
	m.begin(ctx, 0)
	defer m.end()
	if got := exceeded(m, func(m *meter) { m.spend(largeWork+1, 0) }); !errors.Is(got, ErrBusy) {
		t.Errorf("the event ends with %v", got)
	}
}

// TestChargesDoNotDependOnOtherProjections folds an event twice, as two projections do.
func TestChargesDoNotDependOnOtherProjections(t *testing.T) {
	t.Parallel()
	projections, err := Parse("p.yaml", []byte(`projections: [{name: p, collection: c, on: {E: {set: {n: "size(payload.list) + payload.list[9] + (7 in payload.list ? 1 : 0)"}}}}]`))
	if err != nil {
		t.Fatal(err)
	}
	ev := NewEvent(&event.Event{
		Keys:    event.Keys{AggregateID: "a", EventID: 1, EventType: "E"},
		Payload: testkit.Value(bson.D{{Key: "list", Value: make([]int64, 1000)}}),
	})
	spent := make([]int, 2)
	for i := range spent {
		f := projections[0].foldInto(t.Context(), newDocument(nil), []*Event{ev}, nil, Unbounded)
		if f.Err != nil {
			t.Fatal(f.Err)
		}
		if ev.meter != (meter{}) {
			t.Errorf("the meter is not reset: %+v", ev.meter)
		}
		// What the first fold has looked up must not make the second one cheaper.
		v, _ := ev.resolve(varPayload)
		v.(*documentValue).find("list")
		spent[i] = ev.meter.work
		ev.meter.end()
		ev.forget()
	}
	if spent[0] != spent[1] || spent[0] == 0 {
		t.Errorf("the event takes %d units of work, then %d", spent[0], spent[1])
	}
}

// TestChargesDoNotDependOnBatches evaluates expressions over the same state, once as it is
// stored and once as earlier events of the batch have left it.
func TestChargesDoNotDependOnBatches(t *testing.T) {
	t.Parallel()
	const events = 200
	for _, expression := range []string{
		"state", "state.size()", "state.list", "size(state.list)", "state.list[3] + state.list[150]", "state.list + [1]", "state.list.map(x, x + 1)",
		"state.list.exists(x, state.list == [x])", "150 in state.list", "state.list.distinct().size()", "'%s'.format([state.list])", "state.texts.join(',')",
		"state.list.sort().reverse().slice(0, 9)", "sets.contains(state.list, [7])", "state.texts.filter(x, x in state.texts).size()",
		"state.map(k, k)", "state.count + state.rest.a", "state.?absent.orValue(1)", "has(state.list)", "state == {'x': 1}",
		"state.list.sum()", "state.list.reduce(l, state.list, x, l + [x]).size()", "state.rest.merge({'b': 1})", "[state.count, decimal('1.5')].sort()",
	} {
		projections, err := Parse("p.yaml", []byte(fmt.Sprintf(`projections: [{name: p, collection: c, on: {E: {push: {list: eventId, texts: "string(eventId)"}, set: {rest: "{'a': eventId, 'text': payload.text}", aPatternWithALongName: payload.pattern}, inc: {count: "1"}}, Begins: {set: {aFieldThatIsRemovedLater: "1"}}, Removes: {unset: [aFieldThatIsRemovedLater]}, Last: {set: {r: %q}}}}]`, expression)))
		if err != nil {
			t.Fatal(err)
		}
		p := projections[0]
		view := func(id int64, eventType string) *Event {
			return NewEvent(&event.Event{
				Keys:    event.Keys{AggregateID: "a", EventID: id, EventType: eventType},
				Payload: testkit.Value(bson.D{{Key: "text", Value: "text"}, {Key: "pattern", Value: bson.Regex{Pattern: "a pattern of some length"}}}),
			})
		}
		var history []*Event
		for id := range int64(events) {
			eventType := "E"
			switch id {
			case 0:
				eventType = "Begins"
			case events - 1:
				eventType = "Removes"
			}
			history = append(history, view(id+1, eventType))
		}
		folded := newDocument(nil)
		if f := p.foldInto(t.Context(), folded, history, nil, Unbounded); f.Err != nil {
			t.Fatal(f.Err)
		}
		half := newDocument(nil)
		p.foldInto(t.Context(), half, history[:events/2], nil, Unbounded)
		rest := newDocument(half.State())
		p.foldInto(t.Context(), rest, history[events/2:], nil, Unbounded)
		spent := map[meter]bool{}
		for _, d := range []*document{folded, newDocument(folded.State()), rest} {
			s := &scope{event: view(events+1, "Last")}
			s.state.f, d.meter = d, &s.event.meter
			if _, err := p.sources[0].on["Last"][0].evaluate(s, d.meter); err != nil {
				t.Fatalf("%s: %v", expression, err)
			}
			spent[s.event.meter] = true
			d.meter, d.large = nil, nil
			s.event.meter.end()
		}
		if len(spent) != 1 {
			t.Errorf("%s: the charges are %v", expression, spent)
		}
	}
}

// TestResultIsChargedWhileItIsEncoded checks that a small event waits for its turn before
// its large result is in memory, and that a round without the turn keeps only one result.
func TestResultIsChargedWhileItIsEncoded(t *testing.T) {
	projections, err := Parse("p.yaml", []byte(`projections: [{name: p, collection: c, on: {E: {set: {lines: "payload.lines.map(l, {'sku': l, 'order': payload.order})"}}}}]`))
	if err != nil {
		t.Fatal(err)
	}
	var events []*Event
	for id := range int64(3) {
		events = append(events, NewEvent(&event.Event{
			Keys:    event.Keys{AggregateID: "a", EventID: id + 1, EventType: "E"},
			Payload: testkit.Value(bson.D{{Key: "lines", Value: make([]int64, 2_000)}, {Key: "order", Value: strings.Repeat("a", 6_000)}}),
		}))
	}
	large <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f := projections[0].foldInto(ctx, newDocument(nil), events, nil, 1<<20)
	runtime.ReadMemStats(&after)
	<-large
	if f.Err == nil || !errors.Is(f.Err.Err, ErrBusy) {
		t.Fatalf("the event does not wait: %v", f.Err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 8<<20 {
		t.Errorf("%d MiB are allocated before the turn", allocated>>20)
	}
	if f := projections[0].foldInto(t.Context(), newDocument(nil), events, nil, 1<<20); f.Folded != 1 || f.Err != nil {
		t.Errorf("%d events are folded without the turn: %v", f.Folded, f.Err)
	}
}
