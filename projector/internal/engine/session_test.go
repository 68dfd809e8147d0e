package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

const tally = `
projections:
  - name: p
    collection: c
    on:
      Added:
        inc: {n: payload.n}
        push: {seen: eventId}
      Failing:
        set: {n: "1 / 0"}
      Deleted:
        delete: true
`

var tallyUnit = model.Unit{Projection: "p", Generation: 1, Collection: "c", AggregateID: "a-1", Deletes: true}

// done lets a session process events, and expects all of them to be done.
func done(t *testing.T, s *engine.Session, events ...*event.Event) {
	t.Helper()
	results, err := s.Process(t.Context(), events, fresh)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Outcome != model.Done {
			t.Fatalf("event %d is %v", events[i].EventID, r.Outcome)
		}
	}
}

func added(id int64) *event.Event {
	return projectiontest.Event(id, "Added", `{"n":1}`)
}

func TestSessionDoesNotLoadTheStatesThatItWrote(t *testing.T) {
	t.Parallel()
	b := newBench(t, tally)
	s := b.Session(1 << 20)
	done(t, s, added(1))
	done(t, s, added(2), added(3))
	done(t, s, added(4))
	if len(b.loads) != 0 {
		t.Errorf("%d loads", len(b.loads))
	}
	if got := projectiontest.JSON(t, b.documents[tallyUnit]); got != `{"n":4,"seen":[1,2,3,4]}` {
		t.Errorf("stored is %s", got)
	}
	if b.unreleased != 0 {
		t.Errorf("%d loads are not released", b.unreleased)
	}
	// Another session starts without states.
	done(t, b.Session(1<<20), added(5))
	if len(b.loads) != 1 {
		t.Errorf("%d loads by another session, want 1", len(b.loads))
	}
}

func TestSessionKeepsTheNewestStatesWithinItsBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t, tally)
	s := b.Session(1000) // two states
	of := func(aggregate string, id int64) *event.Event {
		ev := added(id)
		ev.AggregateID = aggregate
		return ev
	}
	for _, aggregate := range []string{"a", "b", "c"} {
		done(t, s, of(aggregate, 1))
	}
	for aggregate, loads := range map[string]int{"b": 0, "c": 0, "a": 1} {
		before := len(b.loads)
		results, err := s.Process(t.Context(), []*event.Event{of(aggregate, 2)}, fresh)
		if err != nil || results[0].Outcome != model.Done || len(b.loads)-before > 1 {
			t.Fatal(aggregate, results, err, loads)
		}
	}
	none := b.Session(0)
	done(t, none, of("d", 1))
	before := len(b.loads)
	done(t, none, of("d", 2))
	if len(b.loads) != before+1 {
		t.Error("a session without room kept a state")
	}
}

// TestErasedAggregateIsNotCreatedAnew sends a late first event to a projection that never deletes.
// Its insert is guarded by nothing but the absence of the document, so the watermark must be read.
func TestErasedAggregateIsNotCreatedAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t, strings.Replace(tally, "      Deleted:\n        delete: true\n", "", 1), func(o *benchOptions) { o.targets[0].Erased = true })
	u := tallyUnit
	u.Deletes = false
	b.marks[u] = model.Erased
	done(t, b.Session(1<<20), added(1), added(2))
	if len(b.writes) != 0 {
		t.Errorf("written: %v", b.writes)
	}
}

// TestFailureOnAnAssumedStateParksNothing checks that a failure on an assumed state parks
// nothing.
func TestFailureOnAnAssumedStateParksNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, tally)
	s := b.Session(1 << 20)
	done(t, s, added(1))
	b.documents[tallyUnit], b.marks[tallyUnit] = testkit.FromJSON(`{"n":{"$numberLong":"7"}}`), 2
	// For the kept state, event 2 is the next one, and fails. But another writer has
	// applied it already.
	done(t, s, projectiontest.Event(2, "Failing", `{}`))
	if len(b.parking.parked) != 0 {
		t.Errorf("parked: %v", b.parking.parked)
	}
}

// TestFailureOfTheFirstEventOfAPartParksIt sends a first event that fails to a view. The session
// assumes that there is no part, and all writes of parts are guarded, also one without an event.
func TestFailureOfTheFirstEventOfAPartParksIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
views:
  - name: p
    collection: c
    from:
      - {aggregateType: Account, key: aggregateId, on: {Failing: {set: {n: "1 / 0"}}}}
`)
	failing := projectiontest.Event(1, "Failing", `{}`)
	failing.AggregateType = "Account"
	done(t, b.Session(1<<20), failing)
	if len(b.parking.parked) != 1 || len(b.writes) != 0 {
		t.Errorf("parked: %v, written: %v", b.parking.parked, b.writes)
	}
}

// replaceTargets replaces the targets by others with the same units.
func replaceTargets(tb rapid.TB, b *bench) {
	targets := b.Targets()
	if err := errors.Join(b.Set(nil), b.Set(targets)); err != nil {
		tb.Fatal(err)
	}
}

func TestSessionKeepsNoStatesOfAReplacedTarget(t *testing.T) {
	t.Parallel()
	b := newBench(t, tally)
	s := b.Session(1 << 20)
	done(t, s, added(1))
	replaceTargets(t, b)
	done(t, s, added(2))
	if len(b.loads) != 1 {
		t.Errorf("%d loads after the target was replaced, want 1", len(b.loads))
	}
}

// TestStaleStatesChangeNothing checks that stale states in sessions do not make read
// models wrong. Two sessions share one aggregate, manual edits falsify its document,
// repairs replace it at its watermark, and targets are replaced in between. After a
// repair, the document is the fold of its events until the next manual edit.
func TestStaleStatesChangeNothing(t *testing.T) {
	t.Parallel()
	history := make([]*event.Event, 40)
	for i := range history {
		history[i] = added(int64(i + 1))
		if i%9 == 8 {
			history[i] = projectiontest.Event(int64(i+1), "Deleted", `{}`)
		}
	}
	projection := projectiontest.One(t, tally)
	fold := func(n int64) bson.Raw {
		f := projection.Fold(nil, history[:n])
		if f.State() == nil {
			return nil
		}
		return projectiontest.Sorted(projectiontest.Content(f.State()))
	}
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t, tally)
		b.history.events = history
		sessions := []*engine.Session{b.Session(1 << 20), b.Session(1 << 20)}
		tainted := false
		process := func(rt *rapid.T, i int, back int64) {
			// A broker repeats events, and a lost session has old ones.
			from := max(b.marks[tallyUnit]-back, 0)
			to := min(from+rapid.Int64Range(1, 4).Draw(rt, "events"), int64(len(history)))
			if from >= to {
				rt.Skip("the history has ended")
			}
			if _, err := sessions[i].Process(t.Context(), history[from:to], fresh); err != nil {
				rt.Fatal(err)
			}
		}
		drawSession := rapid.IntRange(0, len(sessions)-1)
		rt.Repeat(map[string]func(*rapid.T){
			"process": func(rt *rapid.T) {
				process(rt, drawSession.Draw(rt, "session"), rapid.SampledFrom([]int64{0, 0, 0, 0, 1, 3, -1}).Draw(rt, "back"))
			},
			"falsify": func(rt *rapid.T) {
				if b.documents[tallyUnit] == nil {
					rt.Skip("nothing to falsify")
				}
				b.documents[tallyUnit], tainted = testkit.FromJSON(`{"n":{"$numberLong":"1000"},"seen":[]}`), true
				// A new session continues from the wrong document, and keeps it.
				i := drawSession.Draw(rt, "session")
				sessions[i] = b.Session(1 << 20)
				process(rt, i, 0)
			},
			"repair": func(rt *rapid.T) {
				right := fold(b.marks[tallyUnit])
				if b.documents[tallyUnit] == nil || right == nil {
					rt.Skip("nothing to repair")
				}
				b.clock++
				b.documents[tallyUnit], b.times[tallyUnit], tainted = right, b.clock, false
			},
			"replace target": func(rt *rapid.T) {
				replaceTargets(rt, b)
			},
			"": func(rt *rapid.T) {
				want := fold(b.marks[tallyUnit])
				if b.documents[tallyUnit] == nil {
					tainted = false
				}
				if !tainted && !slices.Equal(b.documents[tallyUnit], want) {
					rt.Fatalf("at %d the document is %s, want %s", b.marks[tallyUnit], projectiontest.JSON(t, b.documents[tallyUnit]), projectiontest.JSON(t, want))
				}
				if b.unreleased != 0 || len(b.parking.parked) != 0 {
					rt.Fatal(fmt.Sprint(b.unreleased, b.parking.parked))
				}
			},
		})
	})
}
