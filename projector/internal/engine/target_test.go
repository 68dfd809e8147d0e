package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// declared compiles one projection that folds into counts.
func declared(tb testing.TB, handlers string) *projection.Projection {
	tb.Helper()
	return projectiontest.One(tb, "projections: [{name: counts, collection: counts, on: {"+handlers+"}}]")
}

const shadow = "counts.generation-2"

// rebuild returns the targets during the build of the second generation.
func rebuild(tb testing.TB, defers bool) []engine.Target {
	tb.Helper()
	return []engine.Target{
		{Projection: declared(tb, `Add: {inc: {n: 1}}, Bad: {inc: {n: 1}}`)},
		{Projection: declared(tb, `Add: {push: {ids: eventId}}, Bad: {set: {x: payload.missing}}`), Generation: 2, Collection: shadow, Building: true, Defers: defers},
	}
}

func newRebuild(tb testing.TB, defers bool) *bench {
	tb.Helper()
	return newBench(tb, twoProjections, func(o *benchOptions) { o.targets = rebuild(tb, defers) })
}

var (
	live     = model.Unit{Projection: "counts", Generation: 1, Collection: "counts", AggregateID: "one"}
	building = model.Unit{Projection: "counts", Generation: 2, Collection: shadow, AggregateID: "one"}
)

// expectMarks expects the watermarks of both generations.
func (b *bench) expectMarks(t *testing.T, first, second int64) {
	t.Helper()
	if b.marks[live] != first || b.marks[building] != second {
		t.Errorf("watermarks %d and %d, want %d and %d", b.marks[live], b.marks[building], first, second)
	}
}

func TestNothingIsAcknowledgedBeforeTheTargetsAreKnown(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections, func(o *benchOptions) { o.targets = nil })
	evs := events(t, "one", "1 Add")
	if results, err := b.Process(t.Context(), evs, again); err == nil || verdicts(results) != "retry" {
		t.Errorf("%s, %v", verdicts(results), err)
	}
	if results, err := b.Park(t.Context(), evs, projection.ReasonMissing, errTrouble, fresh); err == nil || verdicts(results) != "retry" {
		t.Errorf("parked: %s, %v", verdicts(results), err)
	}
	if err := b.Set(rebuild(t, true)); err != nil {
		t.Fatal(err)
	}
	b.process(t, evs, fresh, "done")
	b.expectMarks(t, 1, 1)
	// Set without targets means that there is no projection.
	if err := b.Set(nil); err != nil || len(b.Targets()) > 0 {
		t.Fatal(err)
	}
	b.process(t, events(t, "one", "2 Add"), fresh, "done")
	b.expectMarks(t, 1, 1)
}

// TestPauseWaitsForRunningWrites checks that Pause returns when no write is in flight,
// and that the projection's read models are neither loaded nor written until Continue,
// while other projections continue.
func TestPauseWaitsForRunningWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, twoProjections)
		writing, answer := make(chan bool), make(chan bool)
		b.slow = func(u model.Unit) {
			if u.Projection == "counts" {
				writing <- true
				<-answer
			}
		}
		thing := func(id string) []*event.Event {
			evs := events(t, "one", id+" Add")
			evs[0].AggregateType = "Thing"
			return evs
		}
		done := make(chan string)
		process := func(id string) {
			results, err := b.Process(t.Context(), thing(id), again)
			done <- fmt.Sprint(verdicts(results), " ", errors.Is(err, engine.ErrPaused))
		}
		go process("1")
		<-writing
		paused := make(chan error)
		go func() { paused <- b.Pause(t.Context(), "counts") }()
		synctest.Wait()
		select {
		case err := <-paused:
			t.Fatalf("paused in the middle of a write, %v", err)
		default:
		}
		answer <- true
		if err := <-paused; err != nil {
			t.Fatal(err)
		}
		if got := <-done; got != "done false" {
			t.Errorf("the event before the pause is %s", got)
		}
		loads := len(b.loads)
		go process("2")
		if got := <-done; got != "retry true" {
			t.Errorf("an event during the pause is %s", got)
		}
		if b.marks[unitOf("counts", "one")] != 1 || b.marks[unitOf("things", "one")] != 2 || len(b.loads) != loads+1 || len(b.parking.parked) > 0 {
			t.Errorf("watermarks %v, %d loads, parked %v", b.marks, len(b.loads)-loads, b.parking.parked)
		}
		// A batch that waits for the pause lock continues.
		b.slow = nil
		go process("2")
		<-time.After(time.Millisecond)
		b.Continue("counts")
		if got := <-done; got != "done false" {
			t.Errorf("the event after the pause is %s", got)
		}
		b.Continue("counts")

		b.slow = func(model.Unit) { <-answer }
		go process("3")
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errTrouble)
		if err := b.Pause(ctx, "counts"); !errors.Is(err, errTrouble) {
			t.Errorf("paused: %v", err)
		}
		close(answer)
		if got := <-done; got != "done false" {
			t.Errorf("the event before the second pause is %s", got)
		}
	})
}

// TestNothingIsDoneByACallWithEarlierTargets checks that no event is done by a call during which
// a target was added, even if it was written. The process may not have been registered when the
// job of that target read the event store, so the job may lack the event.
func TestNothingIsDoneByACallWithEarlierTargets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newRebuild(t, false)
		targets := b.Targets()
		if err := b.Set(targets[:1]); err != nil {
			t.Fatal(err)
		}
		answer := make(chan struct{})
		b.slow = func(model.Unit) { <-answer }
		evs := events(t, "one", "1 Add")
		done := make(chan string)
		go func() {
			results, err := b.Process(t.Context(), evs, fresh)
			done <- fmt.Sprint(verdicts(results), " ", errors.Is(err, model.ErrSuperseded))
		}()
		synctest.Wait()
		if err := b.Set(targets); err != nil {
			t.Fatal(err)
		}
		close(answer)
		if got := <-done; got != "retry true" {
			t.Errorf("the event of the call is %s", got)
		}
		b.expectMarks(t, 1, 0)
		b.process(t, evs, fresh, "done")
		b.expectMarks(t, 1, 1)
	})
}

// TestUnitOfAReplacedTargetIsNotWritten checks that a running batch does not write a
// target after it was replaced, and still writes a target that stays.
func TestUnitOfAReplacedTargetIsNotWritten(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		next          []engine.Target
		verdict       string
		first, second int64
	}{
		"same target":        {rebuild(t, true), "done", 1, 1},
		"one target removed": {rebuild(t, true)[:1], "retry", 1, 0},
		"promoted":           {[]engine.Target{{Projection: rebuild(t, true)[1].Projection, Generation: 2}}, "retry", 0, 0},
		"caught up":          {rebuild(t, false), "retry", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newRebuild(t, true)
				if err := b.Pause(t.Context(), "counts"); err != nil {
					t.Fatal(err)
				}
				done := make(chan string)
				go func() {
					results, err := b.Process(t.Context(), events(t, "one", "1 Add"), again)
					done <- fmt.Sprint(verdicts(results), " ", errors.Is(err, model.ErrSuperseded))
				}()
				synctest.Wait()
				if err := b.Set(test.next); err != nil {
					t.Fatal(err)
				}
				b.Continue("counts")
				if got, want := <-done, fmt.Sprint(test.verdict, " ", test.verdict == "retry"); got != want {
					t.Errorf("%s, want %s", got, want)
				}
				b.expectMarks(t, test.first, test.second)
				if len(b.parking.parked) > 0 {
					t.Errorf("parked %v", b.parking.parked)
				}
			})
		})
	}
}

// TestAnUntrustedProcessAcknowledgesNothing checks that no event is done, even if it was
// written, if other processes no longer wait for this one.
func TestAnUntrustedProcessAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	var untrusted error
	b := newBench(t, twoProjections, func(o *benchOptions) { o.Trusted = func() error { return untrusted } })
	b.process(t, events(t, "one", "1 Add"), fresh, "done")
	untrusted = errTrouble
	evs := events(t, "one", "2 Add", "3 Bad", "4 Add")
	results, err := b.Process(t.Context(), evs, fresh)
	if verdicts(results) != "retry/retry/retry" || !errors.Is(err, errTrouble) || results[1].Err != nil || b.marks[unitOf("counts", "one")] != 2 {
		t.Errorf("%+v, %v, %v", results, err, b.marks)
	}
	if results, err := b.Park(t.Context(), evs, projection.ReasonMissing, errTrouble, fresh); verdicts(results) != "retry/retry/retry" || !errors.Is(err, errTrouble) {
		t.Errorf("parked: %s, %v", verdicts(results), err)
	}
	untrusted = nil
	b.process(t, evs, fresh, "done/done/done")
}
