package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

func sweepAll(t *testing.T, w *fakeStores, j job.Job, set ...func(*Options)) map[string]int64 {
	t.Helper()
	s := &saver{saves: -1}
	if err := newWorkers(t, w, set...).sweep(t.Context(), j, span{}, s); err != nil {
		t.Fatal(err)
	}
	return s.r.counts
}

// newFleet has aggregates that are named after their states.
func newFleet() *fakeStores {
	customer := historyOf("customer", 2)
	for i := range customer {
		customer[i].aggregateType = "Customer"
	}
	return newFakeStores(slices.Concat(historyOf("absent", 3), customer, historyOf("current", 4), historyOf("deleted", 2), historyOf("lagging", 5), historyOf("parked", 6))...)
}

func TestSweepFoldsAggregatesThatAreBehind(t *testing.T) {
	t.Parallel()
	w := newFleet()
	w.models["current"], w.watermarks["current"] = "1,2,3,4,", 4
	w.watermarks["deleted"] = 2
	w.models["lagging"], w.watermarks["lagging"] = "1,2,", 2
	w.models["parked"], w.watermarks["parked"] = "1,", 1
	w.parked["parked"] = model.Marker{EventID: 2, Reason: "expression"}
	for _, want := range []map[string]int64{
		{CountAggregates: 6, CountEvents: 22, CountBehind: 2, CountParked: 1},
		{CountAggregates: 6, CountEvents: 22, CountBehind: 0, CountParked: 1},
	} {
		wantCounts(t, sweepAll(t, w, testJob), want)
		if w.models["absent"] != "1,2,3," || w.models["lagging"] != "1,2,3,4,5," || w.models["parked"] != "1," || w.models["deleted"] != "" || w.watermarks["customer"] != 0 {
			t.Errorf("models %v, watermarks %v", w.models, w.watermarks)
		}
	}
}

// A read model that was restored from a backup can lack events before the one at which its
// aggregate is parked. A sweep folds those; a marker that resumes by itself is left alone, and
// one that the read model has passed does not count.
func TestSweepFoldsUpToTheEventThatIsParked(t *testing.T) {
	t.Parallel()
	gap := historyOf("gap", 2)
	gap[1].id = 7
	w := newFakeStores(slices.Concat(historyOf("behind", 6), historyOf("lost", 4), historyOf("passed", 4), historyOf("resumes", 6), gap)...)
	w.models["behind"], w.watermarks["behind"] = "1,", 1
	w.parked["behind"] = model.Marker{EventID: 5, Reason: "expression"}
	w.parked["lost"] = model.Marker{EventID: 3, Reason: "expression"}
	w.models["passed"], w.watermarks["passed"] = "1,2,3,", 3
	w.parked["passed"] = model.Marker{EventID: 2, Reason: "expression"}
	w.models["resumes"], w.watermarks["resumes"] = "1,", 1
	w.parked["resumes"] = model.Marker{EventID: 5, Reason: "missing", Resumes: true}
	w.models["gap"], w.watermarks["gap"] = "1,", 1
	w.parked["gap"] = model.Marker{EventID: 7, Reason: "expression"}
	for _, healed := range []int64{3, 0} {
		c := sweepAll(t, w, testJob)
		if c[CountBehind] != healed || w.models["behind"] != "1,2,3,4," || w.models["lost"] != "1,2," || w.models["passed"] != "1,2,3,4," || w.models["resumes"] != "1," || w.models["gap"] != "1," {
			t.Errorf("counts %v, models %v", c, w.models)
		}
		if len(w.parked) != 5 || w.parked["behind"].EventID != 5 || w.parked["gap"].EventID != 7 {
			t.Errorf("parked %v", w.parked)
		}
	}
}

// TestDocumentsThatCannotBeReadHoldNoRange checks that builds and sweeps park the aggregates
// of such documents and go on with the others, unless nothing can be read.
func TestDocumentsThatCannotBeReadHoldNoRange(t *testing.T) {
	t.Parallel()
	for kind, work := range map[string]func(*Workers, context.Context, job.Job, span, job.Progress) error{"build": (*Workers).build, "sweep": (*Workers).sweep} {
		for name, down := range map[string]error{"some": nil, "all": errors.New("no primary")} {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				w := newFakeStores()
				for i := range 40 {
					id := fmt.Sprintf("a-%02d", i)
					w.events = append(w.events, historyOf(id, 2)...)
					// The others are behind, so that their watermarks are read.
					w.models[id], w.watermarks[id] = "1,", 1
				}
				w.unreadable = map[string]bool{"a-07": true, "a-08": true, "a-30": true}
				workers := newWorkers(t, w, func(o *Options) { o.Reachable = func(context.Context) error { return down } })
				s := &saver{saves: -1}
				if err := work(workers, t.Context(), testJob, span{}, s); (err != nil) != (down != nil) {
					t.Fatal(err)
				}
				if down != nil {
					return
				}
				wantCounts(t, s.r.counts, map[string]int64{CountParked: 3, CountFailed: 0, CountWritten: 37})
				for i := range 40 {
					id := fmt.Sprintf("a-%02d", i)
					if w.unreadable[id] != (w.parked[id].Reason == "unavailable") || w.unreadable[id] == (w.models[id] == "1,2,") {
						t.Errorf("%s has %s and is parked as %+v", id, w.models[id], w.parked[id])
					}
				}
			})
		}
	}
}

// TestSweepWaitsTheGracePeriodOnlyAFewTimes: if aggregates in all parts of the store are
// behind, a process with one worker waits the grace period a few times, and not once for
// each of many ranges.
func TestSweepWaitsTheGracePeriodOnlyAFewTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFakeStores()
		for i := range 1000 {
			w.events = append(w.events, historyOf(fmt.Sprintf("a-%03d", i), 1)...)
		}
		const grace = 30 * time.Second
		j := testJob
		j.Params = testkit.Raw(Params{GraceMillis: grace.Milliseconds()})
		workers := newWorkers(t, w)
		ranges, _, err := workers.plan(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for _, r := range ranges {
			if err := workers.sweep(t.Context(), j, r, &saver{saves: -1}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took > 5*grace || len(w.models) != 1000 {
			t.Errorf("%d of 1000 aggregates are folded after %s, in %d ranges", len(w.models), took, len(ranges))
		}
	})
}

// TestSweepRemovesForeignDocuments checks that a sweep finds a document of an older
// generation also if the watermark is at the head, if the events are not those of the
// projection, and if the aggregate is parked. The sweep changes nothing else.
func TestSweepRemovesForeignDocuments(t *testing.T) {
	t.Parallel()
	w := newFleet()
	w.models["current"], w.watermarks["current"] = "1,2,3,4,", 4
	w.watermarks["deleted"], w.watermarks["lagging"] = 2, 2
	w.parked["parked"] = model.Marker{EventID: 1, Reason: "expression"}
	for _, aggregate := range []string{"absent", "customer", "deleted", "lagging", "parked"} {
		w.foreign[aggregate] = model.Foreign{Generation: 1, Watermark: 1}
	}
	for _, want := range []map[string]int64{
		{CountAggregates: 6, CountBehind: 5, CountParked: 1},
		{CountAggregates: 6, CountBehind: 0, CountParked: 1},
	} {
		wantCounts(t, sweepAll(t, w, testJob), want)
		if len(w.foreign) > 0 {
			t.Errorf("left %v", w.foreign)
		}
		if w.models["absent"] != "1,2,3," || w.models["lagging"] != "3,4,5," || w.models["deleted"] != "" || w.models["parked"] != "" || w.watermarks["customer"] != 0 || w.watermarks["parked"] != 0 {
			t.Errorf("models %v, watermarks %v", w.models, w.watermarks)
		}
	}
}

// TestSweepWaitsTheGracePeriodForTheStream: the sweep does not fold an event that the
// stream delivers within the grace period.
func TestSweepWaitsTheGracePeriodForTheStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFakeStores(histories(20, 1)...)
		lost := "a-07"
		time.AfterFunc(20*time.Second, func() {
			for _, e := range w.events {
				if e.aggregate != lost {
					w.deliver(e)
				}
			}
		})
		const grace = 30 * time.Second
		j := testJob
		j.Params = testkit.Raw(Params{GraceMillis: grace.Milliseconds()})
		start := time.Now()
		counts := sweepAll(t, w, j)
		wantCounts(t, counts, map[string]int64{CountBehind: 1, CountAggregates: 20})
		if took := time.Since(start); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("took %v: every page waits for itself", took)
		}
		if err := w.check(); err != nil {
			t.Error(err)
		}
	})
}

// A generation that gets every event is promoted at any time. If the topic has not delivered an
// event, and a sweep has folded it into the live generation, readers would go back.
func TestSweepHealsNothingBesideAGenerationThatCanReplaceIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		next  engine.Target
		heals bool
	}{
		"still defers":     {engine.Target{Generation: 3, Building: true, Defers: true}, true},
		"gets every event": {engine.Target{Generation: 3, Building: true}, false},
	} {
		w := newFakeStores(historyOf("lagging", 5)...)
		w.models["lagging"], w.watermarks["lagging"] = "1,2,", 2
		test.next.Projection = w.target.Projection
		counts := sweepAll(t, w, testJob, func(o *Options) {
			o.Targets = func() []engine.Target { return []engine.Target{w.target, test.next} }
		})
		if healed := w.models["lagging"] == "1,2,3,4,5,"; healed != test.heals || (counts[CountBehind] > 0) != test.heals {
			t.Errorf("%s: healed %v, counts %v", name, healed, counts)
		}
	}
}

// An outage holds the range, and one aggregate does not.
func TestSweepDoesNotWaitForAParkedAggregate(t *testing.T) {
	t.Parallel()
	for _, outage := range []error{nil, errors.New("no primary")} {
		w := newFakeStores(historyOf("a", 6)...)
		w.models["a"], w.watermarks["a"] = "1,", 1
		w.parked["a"], w.unreadable = model.Marker{EventID: 5, Reason: "expression"}, map[string]bool{"a": true}
		workers := newWorkers(t, w, func(o *Options) { o.Reachable = func(context.Context) error { return outage } })
		if err := workers.sweep(t.Context(), testJob, span{}, &saver{saves: -1}); (err == nil) != (outage == nil) {
			t.Errorf("with the outage %v: %v", outage, err)
		}
		if w.parked["a"].EventID != 5 {
			t.Errorf("the marker is %+v", w.parked["a"])
		}
	}
}

// openCounter counts the ranges that are read.
type openCounter struct {
	*fakeStores
	opened int
}

func (c *openCounter) Open(ctx context.Context, from, until eventstore.Position, since bson.Timestamp) (eventstore.Cursor, error) {
	c.opened++
	return c.fakeStores.Open(ctx, from, until, since)
}

func TestSweepReadsManyAbsentAggregatesInOneQuery(t *testing.T) {
	t.Parallel()
	w := newFakeStores()
	w.page = 500
	for i := range 300 {
		w.events = append(w.events, historyOf(fmt.Sprintf("a-%03d", i), 2)...)
		if i%2 == 0 {
			w.models[fmt.Sprintf("a-%03d", i)], w.watermarks[fmt.Sprintf("a-%03d", i)] = "1,2,", 2
		}
	}
	c := &openCounter{fakeStores: w}
	counts := sweepAll(t, w, testJob, func(o *Options) { o.Events = c })
	wantCounts(t, counts, map[string]int64{CountBehind: 150})
	if c.opened != 1 {
		t.Errorf("%d ranges were read", c.opened)
	}
	if err := w.check(); err != nil {
		t.Error(err)
	}
}

// TestSweepIgnoresTrailingEventsThatBreakTheContract: such events cannot be folded, so an
// aggregate that lacks only them is at its head.
func TestSweepIgnoresTrailingEventsThatBreakTheContract(t *testing.T) {
	t.Parallel()
	events := historyOf("a", 4)
	events[2].broken, events[3].broken = true, true
	only := historyOf("b", 1)
	only[0].broken = true
	w := newFakeStores(append(events, only...)...)
	build1(t, w)
	for range 2 {
		wantCounts(t, sweepAll(t, w, testJob), map[string]int64{CountBehind: 0, CountParked: 0})
	}
	if w.models["a"] != "1,2," || len(w.parked) != 0 {
		t.Errorf("models %v, parked %v", w.models, w.parked)
	}
}

// TestContinuedRangeCountsEachAggregateOnce: another worker continues at the saved
// position with the saved counts.
func TestContinuedRangeCountsEachAggregateOnce(t *testing.T) {
	t.Parallel()
	w := newFakeStores(histories(60, 3)...)
	workers := newWorkers(t, w)
	workers.limits.histories = 5
	for name, work := range map[string]func(context.Context, job.Job, span, job.Progress) error{"build": workers.build, "sweep": workers.sweep} {
		s := &saver{saves: 4, stored: true}
		if err := work(t.Context(), testJob, s.r, s); !errors.Is(err, errKilled) {
			t.Fatalf("%s: ended with %v", name, err)
		}
		if s.r.position.IsZero() || s.r.counts[CountAggregates] == 60 {
			t.Fatalf("%s: saved %v at %v", name, s.r.counts, s.r.position)
		}
		if err := work(t.Context(), testJob, s.r, s); err != nil {
			t.Fatal(err)
		}
		wantCounts(t, s.r.counts, map[string]int64{CountAggregates: 60, CountEvents: 180})
	}
}
