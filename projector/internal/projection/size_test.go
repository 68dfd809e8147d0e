package projection_test

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// TestGrowingValuesPark checks that a value that grows beyond what MongoDB stores parks the
// aggregate, at the same event in every batch, and does not exhaust the memory.
func TestGrowingValuesPark(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 64<<10)
	for name, handler := range map[string]string{
		"text":      `{set: {a: "state.?a.orValue(payload.t) + state.?a.orValue(payload.t)"}}`,
		"array":     `{set: {a: "state.?a.orValue([payload.t]) + state.?a.orValue([payload.t])"}}`,
		"nested":    `{set: {a: "{'x': state.?a.orValue(payload.t), 'y': state.?a.orValue(payload.t)}"}}`,
		"push":      `{push: {a: state}}`,
		"deep push": `{push: {a.b: state}}`,
		"loop":      `{set: {a: "lists.range(2000).map(i, payload.t)"}}`,
		"state":     `{set: {a: "[state, state]"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := projectiontest.On(t, handler)
			first := projectiontest.Event(1, "E", `{"t":"`+text+`"}`)
			events := make([]*event.Event, 60)
			for i := range events {
				ev := *first
				ev.EventID += int64(i)
				events[i] = &ev
			}
			whole := p.Fold(nil, events)
			if whole.Err == nil || whole.Err.Reason != projection.ReasonRejected {
				t.Fatalf("got %v, want the reason %s", whole.Err, projection.ReasonRejected)
			}
			document := p.Fold(nil, events[:1])
			for i := 1; document.Err == nil; i++ {
				document = p.Fold(document.State(), events[i:i+1])
			}
			if document.Err.Error() != whole.Err.Error() {
				t.Errorf("in one batch: %v; one by one: %v", whole.Err, document.Err)
			}
		})
	}
}

// TestSizeOfADocumentIsExact checks that the largest document that MongoDB stores is
// folded, and a larger one is not, however the events are divided.
func TestSizeOfADocumentIsExact(t *testing.T) {
	t.Parallel()
	p := projectiontest.On(t, `{push: {a: payload.t}, set: {b: payload.t}}`)
	const limit = 16 << 20
	textOf := func(id int64, n int) *event.Event {
		ev := projectiontest.Event(id, "E", "")
		ev.Payload = testkit.Value(bson.D{{Key: "t", Value: strings.Repeat("x", n)}})
		return ev
	}
	first := textOf(1, 4<<20)
	start := p.Fold(nil, []*event.Event{first})
	second := func(n int) []*event.Event { return []*event.Event{textOf(2, n)} }
	shortest := p.Fold(start.State(), second(1))
	// Each character is stored twice.
	longest := 1 + (limit-len(shortest.State()))/2
	for length, refused := range map[int]bool{longest: false, longest + 1: true} {
		whole := p.Fold(nil, append([]*event.Event{first}, second(length)...))
		apart := p.Fold(start.State(), second(length))
		if (whole.Err != nil) != refused || (apart.Err != nil) != refused {
			t.Errorf("a document of %d bytes: %v, and %v in a batch of its own", len(shortest.State())+2*(length-1), whole.Err, apart.Err)
		}
	}
}

// TestAccumulatorContinuesALargeDocument checks that a fold in several parts counts the
// fields of the stored document only once.
func TestAccumulatorContinuesALargeDocument(t *testing.T) {
	t.Parallel()
	stored := testkit.Raw(bson.D{{Key: "_id", Value: "a-1"}, {Key: "lastEventId", Value: int64(1)}, {Key: "a", Value: bson.A{strings.Repeat("x", 9<<20)}}})
	a := projectiontest.On(t, `{push: {a: payload.t}}`).Begin(stored)
	for i := range int64(3) {
		if err := a.Add([]*event.Event{projectiontest.Event(i+2, "E", `{"t":"y"}`)}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGrowingStateOfAFunctionParks checks the same of a projection in Go.
func TestGrowingStateOfAFunctionParks(t *testing.T) {
	t.Parallel()
	p := inCode(t, projection.Declaration{Name: "p", Collection: "c", Apply: func(state projection.State, _ *event.Event) (projection.State, error) {
		length := 1 << 20
		if state != nil {
			length = 2 * len(state)
		}
		return bson.Marshal(bson.D{{Key: "a", Value: strings.Repeat("x", length)}})
	}})
	events := make([]*event.Event, 40)
	for i := range events {
		events[i] = projectiontest.Event(int64(i+1), "E", "")
	}
	if f := p.Fold(nil, events); f.Err == nil || f.Err.Reason != projection.ReasonRejected || f.Err.EventID != 5 {
		t.Errorf("got %v", f.Err)
	}
}
