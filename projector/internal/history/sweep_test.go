package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// newFleet has aggregates that are named after their states.
func newFleet(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, slices.Concat(historyOf("absent", 3), customer("customer", 2), historyOf("current", 4), historyOf("deleted", 2), historyOf("lagging", 5), historyOf("parked", 6))...)
	w.has(t, "current", 4, 2)
	w.hasNone(t, "deleted", 2)
	return w
}

func TestSweepFoldsAggregatesThatAreBehind(t *testing.T) {
	t.Parallel()
	w := newFleet(t)
	w.has(t, "lagging", 2, 2)
	w.has(t, "parked", 1, 2)
	w.parked["parked"] = model.Marker{EventID: 2, Reason: "expression"}
	for _, behind := range []int64{2, 0} {
		wantCounts(t, w.sweep(t), map[string]int64{CountAggregates: 6, CountEvents: 22, CountBehind: behind, CountParked: 1})
		w.want(t, map[string]string{"absent": "1,2,3,", "current": "1,2,3,4,", "lagging": "1,2,3,4,5,", "parked": "1,"})
	}
}

// A read model that was restored from a backup can lack events before the one at which its
// aggregate is parked. A sweep folds those; a marker that resumes by itself is left alone, and
// one that the read model has passed does not count.
func TestSweepFoldsUpToTheEventThatIsParked(t *testing.T) {
	t.Parallel()
	gap := historyOf("gap", 2)
	gap[1].id = 7
	w := newWorld(t, slices.Concat(historyOf("behind", 6), historyOf("lost", 4), historyOf("passed", 4), historyOf("resumes", 6), gap)...)
	for name, m := range map[string]struct {
		watermark int64
		model.Marker
	}{
		"behind":  {1, model.Marker{EventID: 5}},
		"lost":    {0, model.Marker{EventID: 3}},
		"passed":  {3, model.Marker{EventID: 2}},
		"resumes": {1, model.Marker{EventID: 5, Resumes: true}},
		"gap":     {1, model.Marker{EventID: 7}},
	} {
		w.parked[name] = m.Marker
		if m.watermark > 0 {
			w.has(t, name, m.watermark, 2)
		}
	}
	for _, healed := range []int64{3, 0} {
		wantCounts(t, w.sweep(t), map[string]int64{CountBehind: healed})
		w.want(t, map[string]string{"behind": "1,2,3,4,", "lost": "1,2,", "passed": "1,2,3,4,", "resumes": "1,", "gap": "1,"})
		if len(w.parked) != 5 || w.parked["behind"].EventID != 5 || w.parked["gap"].EventID != 7 {
			t.Errorf("parked %v", w.parked)
		}
	}
}

// TestDocumentsThatCannotBeReadHoldNoRange checks that builds and sweeps park the aggregates
// of such documents and go on with the others, unless nothing can be read. A marker at a later
// event stays.
func TestDocumentsThatCannotBeReadHoldNoRange(t *testing.T) {
	t.Parallel()
	for kind, work := range map[string]func(*Workers, context.Context, job.Job, span, job.Progress) error{"build": (*Workers).build, "sweep": (*Workers).sweep} {
		for name, outage := range map[string]error{"some": nil, "all": errors.New("no primary")} {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, histories(40, 2)...)
				for i := range 40 {
					// The aggregates are behind, so that their watermarks are read.
					w.has(t, fmt.Sprintf("a-%02d", i), 1, 2)
				}
				w.unreadable, w.outage = map[string]bool{"a-07": true, "a-08": true, "a-30": true}, outage
				s := &saver{saves: -1}
				if err := work(w.workers(), t.Context(), testJob, span{}, s); (err != nil) != (outage != nil) {
					t.Fatal(err)
				}
				if outage != nil {
					return
				}
				wantCounts(t, s.r.counts, map[string]int64{CountParked: 3, CountFailed: 0, CountWritten: 37})
				for id, have := range w.models(t) {
					if w.unreadable[id] != (w.parked[id].Reason == "unavailable") || w.unreadable[id] == (have == "1,2,") {
						t.Errorf("%s has %s and is parked as %+v", id, have, w.parked[id])
					}
				}
			})
		}
	}
}

// An outage holds the range, and one parked aggregate does not.
func TestSweepDoesNotWaitForAParkedAggregate(t *testing.T) {
	t.Parallel()
	for _, outage := range []error{nil, errors.New("no primary")} {
		w := newWorld(t, historyOf("a", 6)...)
		w.has(t, "a", 1, 2)
		w.parked["a"], w.unreadable, w.outage = model.Marker{EventID: 5, Reason: "expression"}, map[string]bool{"a": true}, outage
		if err := w.workers().sweep(t.Context(), testJob, span{}, &saver{saves: -1}); (err == nil) != (outage == nil) {
			t.Errorf("with the outage %v: %v", outage, err)
		}
		if w.parked["a"].EventID != 5 {
			t.Errorf("the marker is %+v", w.parked["a"])
		}
	}
}

// A sweep finds a document of an older generation also if the watermark is at the head, if the
// events are not those of the projection, and if the aggregate is parked. It changes nothing else.
func TestSweepRemovesForeignDocuments(t *testing.T) {
	t.Parallel()
	w := newFleet(t)
	w.hasNone(t, "lagging", 2)
	w.parked["parked"] = model.Marker{EventID: 1, Reason: "expression"}
	for _, aggregate := range []string{"absent", "customer", "deleted", "lagging", "parked"} {
		w.has(t, aggregate, 1, 1)
	}
	for _, behind := range []int64{5, 0} {
		wantCounts(t, w.sweep(t), map[string]int64{CountAggregates: 6, CountBehind: behind, CountParked: 1})
		w.want(t, map[string]string{"absent": "1,2,3,", "current": "1,2,3,4,", "lagging": "3,4,5,"})
	}
}

// An event that the stream delivers within the grace period is not folded.
func TestSweepWaitsTheGracePeriodForTheStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, histories(20, 1)...)
	j := testJob
	j.Params = testkit.Raw(Params{GraceMillis: 5000})
	for i := range 20 {
		if i != 7 {
			time.AfterFunc(100*time.Millisecond, func() { w.has(t, fmt.Sprintf("a-%02d", i), 1, 2) })
		}
	}
	begun, s := time.Now(), &saver{saves: -1}
	if err := w.workers().sweep(t.Context(), j, span{}, s); err != nil || time.Since(begun) < 5*time.Second {
		t.Errorf("took %v, %v", time.Since(begun), err)
	}
	wantCounts(t, s.r.counts, map[string]int64{CountBehind: 1, CountAggregates: 20})
	w.check(t)
}

// A generation that gets every event is promoted at any time. If the topic has not delivered an
// event, and a sweep has folded it into the live generation, readers would go back.
func TestSweepHealsNothingBesideAGenerationThatCanReplaceIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		next engine.Target
		want string
		err  error
	}{
		"still defers":     {engine.Target{Generation: 3, Building: true, Defers: true}, "1,2,3,4,5,", nil},
		"gets every event": {engine.Target{Generation: 3, Building: true}, "1,2,", errReplaceable},
	} {
		w := newWorld(t, historyOf("lagging", 5)...)
		w.has(t, "lagging", 2, 2)
		test.next.Projection = w.projection
		err := w.workers(func(o *Options) {
			o.Targets = func() []engine.Target { return []engine.Target{*w.target(), test.next} }
		}).sweep(t.Context(), testJob, span{}, &saver{saves: -1})
		if w.want(t, map[string]string{"lagging": test.want}); !errors.Is(err, test.err) {
			t.Errorf("%s: the sweep ended with %v", name, err)
		}
	}
}

func TestSweepReadsManyAbsentAggregatesInOneQuery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, histories(100, 2)...)
	for i := 0; i < 100; i += 2 {
		w.has(t, fmt.Sprintf("a-%02d", i), 2, 2)
	}
	wantCounts(t, w.sweep(t), map[string]int64{CountBehind: 50})
	// The first page of the heads is small.
	if w.opened > 2 {
		t.Errorf("%d ranges were read", w.opened)
	}
	w.check(t)
}

// A sweep reads neither the events of aggregates that do not concern the projection, which are absent each
// time, nor those of read models that are not behind.
func TestSweepReadsNoEventsButThoseOfAbsentReadModels(t *testing.T) {
	t.Parallel()
	var events []stored
	for i := range 100 {
		events = append(events, historyOf(fmt.Sprintf("a-%02d", i), 5)...)
		events = append(events, customer(fmt.Sprintf("a-%02d-customer", i), 5)...)
	}
	w := newWorld(t, events...)
	w.build(t)
	w.unfolded, w.opened = 0, 0
	workers, waited := w.workers(), 0
	workers.begin = func(_ context.Context, n int) (func(), error) { waited += n; return func() {}, nil }
	w.do(t, workers.sweep)
	if w.unfolded != 0 || w.opened != 0 || waited != 200+500 {
		t.Errorf("%d events of %d ranges were read; the pace was asked for %d", w.unfolded, w.opened, waited)
	}
	for _, id := range []string{"a-10", "a-90"} {
		if _, err := w.database.Collection("orders.generation-2").DeleteOne(t.Context(), bson.D{{Key: "_id", Value: id}}); err != nil {
			t.Fatal(err)
		}
	}
	w.sweep(t)
	if w.unfolded != 0 || w.opened != 2 {
		t.Errorf("%d events of %d ranges were read for nothing", w.unfolded, w.opened)
	}
	w.check(t)
	// If the server cannot tell in time, all of them are read.
	if _, err := w.database.Collection("orders.generation-2").DeleteOne(t.Context(), bson.D{{Key: "_id", Value: "a-50"}}); err != nil {
		t.Fatal(err)
	}
	w.untold = true
	w.sweep(t)
	w.check(t)
}

// Trailing events that break the contract cannot be folded, so an aggregate that lacks only them
// is at its head.
func TestSweepIgnoresTrailingEventsThatBreakTheContract(t *testing.T) {
	t.Parallel()
	events, only := historyOf("a", 4), historyOf("b", 1)
	events[2].broken, events[3].broken, only[0].broken = true, true, true
	w := newWorld(t, append(events, only...)...)
	w.build(t)
	for range 2 {
		wantCounts(t, w.sweep(t), map[string]int64{CountBehind: 0, CountParked: 0})
	}
	if w.want(t, map[string]string{"a": "1,2,"}); len(w.parked) != 0 {
		t.Errorf("parked %v", w.parked)
	}
}

// Another worker continues at the saved position with the saved counts.
func TestContinuedRangeCountsEachAggregateOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, histories(60, 3)...)
	workers := w.workers()
	workers.limits.histories = 5
	s := &saver{saves: 4, stored: true}
	if err := workers.build(t.Context(), testJob, s.r, s); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	if s.r.position.Events.IsZero() || s.r.counts[CountAggregates] == 60 {
		t.Fatalf("saved %v at %v", s.r.counts, s.r.position)
	}
	if err := workers.build(t.Context(), testJob, s.r, s); err != nil {
		t.Fatal(err)
	}
	wantCounts(t, s.r.counts, map[string]int64{CountAggregates: 60, CountEvents: 180})
}
