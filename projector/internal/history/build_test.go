package history

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

var testJob = job.Job{ID: "orders.2.build", Projection: "orders", Generation: 2}

func newWorkers(t *testing.T, w *fakeStores, set ...func(*Options)) *Workers {
	t.Helper()
	o := Options{Events: w, Targets: w.targets, Store: w, Repairer: w, Parking: w, Engine: w, SaveEvery: time.Nanosecond}
	for _, change := range set {
		change(&o)
	}
	return New(o)
}

// build builds one range with all events.
func build1(t *testing.T, w *fakeStores) map[string]int64 {
	t.Helper()
	s := &saver{saves: -1}
	if err := newWorkers(t, w).build(t.Context(), testJob, span{}, s); err != nil {
		t.Fatal(err)
	}
	return s.r.counts
}

func wantCounts(t *testing.T, got map[string]int64, want map[string]int64) {
	t.Helper()
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%d %s, want %d", got[name], name, n)
		}
	}
}

func TestBuildWritesEachAggregateOnce(t *testing.T) {
	t.Parallel()
	w := newFakeStores()
	for i := range 50 {
		w.events = append(w.events, historyOf(fmt.Sprintf("a-%02d", i), int64(i%9+1))...)
	}
	counts := build1(t, w)
	if err := w.check(); err != nil {
		t.Error(err)
	}
	if w.requests != 1 {
		t.Errorf("%d requests for one group", w.requests)
	}
	wantCounts(t, counts, map[string]int64{CountEvents: int64(len(w.events)), CountAggregates: 50, CountWritten: 50, CountParked: 0})
}

func TestBuildContinuesFromTheWatermarkOfALiveWrite(t *testing.T) {
	t.Parallel()
	w := newFakeStores(append(append(historyOf("a", 5), historyOf("b", 3)...), historyOf("c", 4)...)...)
	w.models["a"], w.watermarks["a"] = "1,2,", 2
	w.models["b"], w.watermarks["b"] = "1,2,3,", 3
	counts := build1(t, w)
	if err := w.check(); err != nil {
		t.Error(err)
	}
	wantCounts(t, counts, map[string]int64{CountWritten: 2})
}

func TestBuildChecksTheOutcomeOfAnUnansweredWrite(t *testing.T) {
	t.Parallel()
	w := newFakeStores(append(historyOf("a", 5), historyOf("b", 3)...)...)
	w.unknown = 1
	build1(t, w)
	if err := w.check(); err != nil {
		t.Error(err)
	}
}

func TestBuildParksAggregatesThatCannotBeFolded(t *testing.T) {
	t.Parallel()
	late := []stored{{aggregate: "late", aggregateType: aggregateType, id: 3, kind: typeGood}, {aggregate: "late", aggregateType: aggregateType, id: 4, kind: typeGood}}
	poisoned := historyOf("poisoned", 6)
	poisoned[3].kind = typePoison
	first := historyOf("poisoned-first", 2)
	first[0].kind = typePoison
	broken := historyOf("unreadable", 4)
	broken[2].broken = true
	hole := append(historyOf("hole", 2), stored{aggregate: "hole", aggregateType: aggregateType, id: 4, kind: typeGood})
	w := newFakeStores()
	for _, events := range [][]stored{historyOf("good", 3), late, poisoned, first, broken, hole, historyOf("rejected", 2)} {
		w.events = append(w.events, events...)
	}
	w.rejected["rejected"] = true
	counts := build1(t, w)
	for name, want := range map[string]model.Marker{
		"late":           {Reason: string(projection.ReasonHistory), EventID: 1, Head: 4, Resumes: true, Seldom: true},
		"poisoned":       {Reason: "expression", EventID: 4, Head: 6},
		"poisoned-first": {Reason: "expression", EventID: 1, Head: 2},
		"unreadable":     {Reason: string(projection.ReasonMissing), EventID: 3, Head: 4, Resumes: true},
		"hole":           {Reason: string(projection.ReasonMissing), EventID: 3, Head: 4, Resumes: true},
		"rejected":       {Reason: "rejected", EventID: 1, Head: 2},
	} {
		got := w.parked[name]
		if got.Reason != want.Reason || got.EventID != want.EventID || got.Head != want.Head || got.Resumes != want.Resumes {
			t.Errorf("%s is parked as %+v, want %+v", name, got, want)
		}
		if got.Generation != 2 {
			t.Errorf("%s is parked in generation %d", name, got.Generation)
		}
	}
	if len(w.parked) != 6 || w.models["poisoned"] != "1,2,3," || w.models["hole"] != "1,2," || w.models["good"] != "1,2,3," || w.models["late"] != "" {
		t.Errorf("models %v, parked %v", w.models, w.parked)
	}
	wantCounts(t, counts, map[string]int64{CountParked: 6, CountUnreadable: 1, CountAggregates: 7})
}

// TestBuildContinuesAHistoryThatBeginsInTheReadModel: the event store needs only the
// events that the read model lacks.
func TestBuildContinuesAHistoryThatBeginsInTheReadModel(t *testing.T) {
	t.Parallel()
	w := newFakeStores(historyOf("a", 5)[2:]...)
	w.models["a"], w.watermarks["a"] = "1,2,", 2
	build1(t, w)
	if w.models["a"] != "1,2,3,4,5," || len(w.parked) != 0 {
		t.Errorf("model %q, parked %v", w.models["a"], w.parked)
	}
}

func TestBuildLeavesOtherAggregateTypesAlone(t *testing.T) {
	t.Parallel()
	other := historyOf("other", 3)
	late := historyOf("other-late", 5)[2:]
	for _, events := range [][]stored{other, late} {
		for i := range events {
			events[i].aggregateType = "Customer"
		}
	}
	w := newFakeStores(append(append(other, late...), historyOf("a", 1)...)...)
	build1(t, w)
	if len(w.models) != 1 || len(w.watermarks) != 1 || len(w.parked) != 0 {
		t.Errorf("models %v, watermarks %v, parked %v", w.models, w.watermarks, w.parked)
	}
}

func TestBuildEndsIfMostAggregatesFail(t *testing.T) {
	t.Parallel()
	w := newFakeStores()
	for i := range 400 {
		events := historyOf(fmt.Sprintf("a-%03d", i), 2)
		events[1].kind = typePoison
		w.events = append(w.events, events...)
	}
	w.page = 10
	workers := newWorkers(t, w)
	workers.limits.histories = 10
	err := workers.build(t.Context(), testJob, span{}, &saver{saves: -1})
	if !errors.Is(err, ErrMostlyFailing) {
		t.Errorf("ended with %v", err)
	}
	// The work in flight at the end is bounded.
	if n := len(w.parked); n < failedAtLeast || n > 200 {
		t.Errorf("%d aggregates are parked", n)
	}
}

// A range whose processes end again and again must not park all aggregates: each process
// continues the count of the one before.
func TestBuildCountsTheFailuresOfEarlierProcesses(t *testing.T) {
	t.Parallel()
	w := newFakeStores()
	for i := range failedAtLeast {
		events := historyOf(fmt.Sprintf("a-%03d", i), 2)
		events[1].kind = typePoison
		w.events = append(w.events, events...)
	}
	first := &saver{saves: -1}
	if err := newWorkers(t, newFakeStores(w.events[:failedAtLeast]...)).build(t.Context(), testJob, span{}, first); err != nil {
		t.Fatal(err)
	}
	counts := first.r.counts
	half := newFakeStores(w.events[failedAtLeast:]...)
	err := newWorkers(t, half).build(t.Context(), testJob, span{counts: counts}, &saver{saves: -1})
	if !errors.Is(err, ErrMostlyFailing) {
		t.Errorf("ended with %v after %v", err, counts)
	}
}

// TestBuildKeepsNoEventsOfALongHistory folds an aggregate that is larger than any memory
// bound.
func TestBuildKeepsNoEventsOfALongHistory(t *testing.T) {
	t.Parallel()
	w := newFakeStores(append(historyOf("a", 5000), historyOf("b", 1)...)...)
	w.page = 500
	workers := newWorkers(t, w)
	workers.limits.long = 1000
	if err := workers.build(t.Context(), testJob, span{}, &saver{saves: -1}); err != nil {
		t.Fatal(err)
	}
	if err := w.check(); err != nil {
		t.Error(err)
	}
	if w.most > 1600 {
		t.Errorf("%d events were kept", w.most)
	}
	if w.requests != 2 {
		t.Errorf("%d requests, want one write for each history", w.requests)
	}
}

// TestBuildWritesFewLargeReadModelsTogether builds read models that are much larger than
// their events.
func TestBuildWritesFewLargeReadModelsTogether(t *testing.T) {
	t.Parallel()
	w := newFakeStores(histories(50, 1)...)
	w.size = 1 << 20
	build1(t, w)
	if w.together > batchLimits.bytes/w.size {
		t.Errorf("%d read models of %d bytes are written together", w.together, w.size)
	}
}

func TestPlanHoldsEveryEventOnce(t *testing.T) {
	t.Parallel()
	w := newFakeStores(histories(30, 4)...)
	workers := newWorkers(t, w, func(o *Options) { o.Ranges = 8 })
	ranges, total, err := workers.plan(t.Context(), testJob)
	if err != nil || len(ranges) != 8 || total != 120 {
		t.Fatalf("%d ranges, total %d, %v", len(ranges), total, err)
	}
	held := 0
	for _, r := range ranges {
		held += len(w.between(r.from, r.until))
		if r.since.IsZero() {
			t.Error("a range has no Since")
		}
		if err := workers.build(t.Context(), testJob, r, &saver{saves: -1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.check(); err != nil {
		t.Error(err)
	}
	if held != 120 {
		t.Errorf("the ranges hold %d events, want 120", held)
	}
	if w.requests != 8 {
		t.Errorf("%d requests, want one write for each range", w.requests)
	}
}

func TestUnknownGenerationIsLeftToOtherProcesses(t *testing.T) {
	t.Parallel()
	workers := newWorkers(t, newFakeStores())
	other := job.Job{Projection: "orders", Generation: 3}
	_, _, planned := workers.plan(t.Context(), other)
	for _, err := range []error{planned, workers.build(t.Context(), other, span{}, &saver{}), workers.sweep(t.Context(), other, span{}, &saver{})} {
		if !errors.Is(err, ErrUnknownTarget) {
			t.Errorf("ended with %v", err)
		}
	}
}

// TestBuildEndsWithItsContext: when Build returns, all its goroutines have ended. The
// package's leak check verifies that.
func TestBuildEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := newFakeStores(histories(100, 4)...)
	ctx, cancel := context.WithCancelCause(t.Context())
	requests := 0
	w.hook = func() error {
		if requests++; requests == 5 {
			cancel(errKilled)
		}
		return nil
	}
	workers := newWorkers(t, w)
	workers.limits.histories = 1
	w.hook = serial(w.hook)
	if err := workers.build(ctx, testJob, span{}, &saver{saves: -1}); !errors.Is(err, errKilled) {
		t.Errorf("ended with %v", err)
	}
}

func TestPositionOfARangeIsNeverAheadOfItsWrites(t *testing.T) {
	t.Parallel()
	w := newFakeStores(histories(40, 3)...)
	workers := newWorkers(t, w)
	workers.limits.histories = 2
	s := &checkedSaver{t: t, fakeStores: w}
	if err := workers.build(t.Context(), testJob, span{}, s); err != nil {
		t.Fatal(err)
	}
	if s.saves < 10 {
		t.Errorf("saved %d times", s.saves)
	}
}

// TestBuildPassesOverNoFailedRequest lets each request of a build fail once. The build ends with
// the error, or everything is written, and no saved position is ahead.
func TestBuildPassesOverNoFailedRequest(t *testing.T) {
	t.Parallel()
	for nth, reached := 1, true; reached; nth++ {
		w := newFakeStores(histories(10, 3)...)
		workers := newWorkers(t, w)
		workers.limits.histories = 2
		sent := 0
		w.hook = serial(func() error {
			if sent++; sent == nth {
				return errKilled
			}
			return nil
		})
		s := &checkedSaver{t: t, fakeStores: w}
		err := workers.build(t.Context(), testJob, span{}, s)
		if err == nil {
			err = s.Save(t.Context(), testkit.Raw(eventstore.After(testkit.Value("z"))), nil)
		}
		if reached = sent >= nth; !reached && err != nil {
			t.Errorf("no request failed, and the build ends with %v", err)
		}
	}
}

// checkedSaver compares every saved position with the read models.
type checkedSaver struct {
	t          *testing.T
	fakeStores *fakeStores
	saves      int
}

func (s *checkedSaver) Save(_ context.Context, saved bson.Raw, _ map[string]int64) error {
	s.saves++
	var position eventstore.Position
	if err := bson.Unmarshal(saved, &position); err != nil {
		return err
	}
	s.fakeStores.mu.Lock()
	defer s.fakeStores.mu.Unlock()
	for _, e := range s.fakeStores.events {
		if before(position, e) && s.fakeStores.watermarks[e.aggregate] < e.id {
			s.t.Errorf("position %v is saved, but event %d of %s is not written", position, e.id, e.aggregate)
		}
	}
	return nil
}

// alwaysLive is a live stream that always has events.
type alwaysLive struct{}

func (alwaysLive) Active() bool { return true }

// TestBuildWritesSmallGroupsWhileLiveEventsFlow: a live write must not wait behind a large
// group.
func TestBuildWritesSmallGroupsWhileLiveEventsFlow(t *testing.T) {
	t.Parallel()
	w := newFakeStores(histories(96, 1)...)
	w.page = 100
	workers := newWorkers(t, w, func(o *Options) { o.Pace = NewPace(PaceOptions{Live: alwaysLive{}}) })
	workers.limits.histories = 96
	if err := workers.build(t.Context(), testJob, span{}, &saver{saves: -1}); err != nil {
		t.Fatal(err)
	}
	if w.requests != liveShare {
		t.Errorf("%d writes, want %d", w.requests, liveShare)
	}
	if err := w.check(); err != nil {
		t.Error(err)
	}
}

// TestBuildOfSparseEventTypesSavesItsProgress checks that a build continues and saves its
// position if no event concerns the projection for a long time. Nothing times out, and
// another worker continues a range at its saved position.
func TestBuildOfSparseEventTypesSavesItsProgress(t *testing.T) {
	t.Parallel()
	w := newFakeStores(historyOf("zz", 2)...)
	for i := range 200 {
		other := historyOf(fmt.Sprintf("a-%03d", i), 2)
		for j := range other {
			other[j].aggregateType = "Customer"
		}
		w.events = append(w.events, other...)
	}
	workers := newWorkers(t, w)
	workers.limits.histories = 4
	killed := &saver{saves: 30, stored: true}
	if err := workers.build(t.Context(), testJob, span{}, killed); !errors.Is(err, errKilled) {
		t.Fatalf("ended with %v", err)
	}
	if seen := killed.r.counts[CountEvents]; seen < 200 || killed.r.counts[CountWritten] != 0 || !before(killed.r.position, stored{aggregate: "a-100"}) {
		t.Errorf("saved position %v and counts %v, although half of the events were seen", killed.r.position, killed.r.counts)
	}
	ended := &saver{r: killed.r, saves: -1}
	if err := workers.build(t.Context(), testJob, killed.r, ended); err != nil {
		t.Fatal(err)
	}
	wantCounts(t, ended.r.counts, map[string]int64{CountEvents: 402, CountAggregates: 201, CountWritten: 1})
	if w.models["zz"] != "1,2," || len(w.models) != 1 {
		t.Errorf("models are %v", w.models)
	}
}

// serial makes a hook safe for concurrent calls.
func serial(hook func() error) func() error {
	var mu sync.Mutex
	return func() error {
		mu.Lock()
		defer mu.Unlock()
		return hook()
	}
}
