package projection_test

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"weak"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// drawFunc draws a projection in Go whose results share memory with the state and the
// event.
func drawFunc(t *rapid.T) *projection.Projection {
	return inCode(t, projection.Declaration{Name: "p", Collection: "c", Deletes: true, Apply: func(state projection.State, ev *event.Event) (projection.State, error) {
		switch {
		case ev.EventType == "D":
			return nil, nil
		case ev.EventType == "C" && state == nil:
			return nil, errors.New("there is nothing yet")
		case ev.EventType == "B":
			return ev.Payload.Document(), nil
		case ev.EventType == "Other":
			return state, nil
		}
		return bson.Marshal(bson.D{{Key: "before", Value: state}, {Key: "id", Value: ev.EventID}})
	}})
}

// TestAccumulatorInPartsEqualsTheFold checks that a fold in parts writes the same as the
// fold of all events at once, up to the event that fails, whether event ids begin at 1 or at 0.
func TestAccumulatorInPartsEqualsTheFold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawProjection(t)
		if rapid.Bool().Draw(t, "in Go") {
			p = drawFunc(t)
		}
		before, events := projectiontest.DrawDocument(t), projectiontest.DrawEvents(t)
		if rapid.Bool().Draw(t, "from 0") {
			for _, ev := range events {
				ev.EventID--
			}
		}
		want := p.Fold(before, events)

		a := p.Begin(before)
		var failed *projection.Error
		for rest := events; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "part")
			failed = a.Add(rest[:n])
			// Sometimes repeat the last event.
			rest = rest[n-rapid.IntRange(0, min(1, n-1)).Draw(t, "again"):]
		}
		if (failed == nil) != (want.Err == nil) || failed != nil && (failed.EventID != want.Err.EventID || failed.Reason != want.Err.Reason) {
			t.Fatalf("failed with %v, want %v", failed, want.Err)
		}
		if !reflect.DeepEqual(projectiontest.Content(a.State()), projectiontest.Content(want.State())) || (a.State() == nil) != (want.State() == nil) {
			t.Fatalf("state %s, want %s", a.State(), want.State())
		}
		last := int64(-1)
		if want.Folded > 0 {
			last = events[want.Folded-1].EventID
		}
		u, from := model.Unit{Projection: "p", AggregateID: "a-1"}, model.State{Watermark: 0, Foreign: &model.Foreign{Generation: 1}}
		w, ok := a.Write(u, from)
		if a.Last() != last || ok != (last >= 0) || !a.Concerned() {
			t.Fatalf("folded up to %d, want %d", a.Last(), last)
		}
		if !ok {
			return
		}
		if w.Unit != u || w.Kind != want.Kind || w.To != last || w.Foreign != from.Foreign {
			t.Fatalf("writes %+v, want %+v", w, want)
		}
		switch w.Kind {
		case model.Create:
			if !reflect.DeepEqual(projectiontest.Content(w.Document), projectiontest.Content(want.Document)) {
				t.Fatalf("creates %s, want %s", w.Document, want.Document)
			}
		case model.Update:
			if got := projectiontest.Updated(t, projectiontest.Content(before), w.Update); !reflect.DeepEqual(got, projectiontest.Content(want.State())) {
				t.Fatalf("%s on %s gives %v, want %s", w.Update, before, got, want.State())
			}
		}
	})
}

// TestAccumulatorKeepsNoEvents checks that a fold does not keep the events of earlier
// parts in memory, although it keeps values of each of them.
func TestAccumulatorKeepsNoEvents(t *testing.T) {
	t.Parallel()
	var declared strings.Builder
	declared.WriteString("projections:\n  - name: p\n    collection: c\n    on:\n")
	for i := range 20 {
		fmt.Fprintf(&declared, "      A%d: {push: {list: payload.v}, set: {field%d: payload.v}}\n", i, i)
	}
	projections := projectiontest.All(t, declared.String())
	a := projections[0].Begin(nil)
	var kept []weak.Pointer[byte]
	for i := range int64(20) {
		ev := projectiontest.Event(i+1, fmt.Sprint("A", i), `{"v":{"text":"`+strings.Repeat("x", 100)+`"}}`)
		kept = append(kept, weak.Make(&ev.Payload.Value[0]))
		if err := a.Add([]*event.Event{ev}); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	for i, p := range kept[:len(kept)-1] {
		if p.Value() != nil {
			t.Errorf("event %d is still in memory", i+1)
		}
	}
	if got := a.State().Lookup("list").Array(); len(got) < 2000 {
		t.Errorf("the list is %s", got)
	}
}

// TestAccumulatorEndsWithADocumentTooLarge checks that a fold fails if its document
// exceeds the size that can be stored.
func TestAccumulatorEndsWithADocumentTooLarge(t *testing.T) {
	t.Parallel()
	projections := projectiontest.All(t, "projections: [{name: p, collection: c, on: {A: {push: {list: payload.v}}}}]")
	a := projections[0].Begin(nil)
	for i := range int64(100) {
		failed := a.Add([]*event.Event{projectiontest.Event(i+1, "A", `{"v":"`+strings.Repeat("x", 1<<20)+`"}`)})
		if failed == nil {
			continue
		}
		if failed.Reason != projection.ReasonRejected || failed.EventID != 16 || a.Last() != 15 {
			t.Errorf("failed with %v after %d", failed, a.Last())
		}
		return
	}
	t.Error("the document grew to 100 MiB")
}
