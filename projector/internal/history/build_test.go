package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

func TestBuildWritesAGroupOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slices.Concat(histories(50, 4), customer("customer", 3))...)
	counts := w.build(t)
	w.check(t)
	if w.requests != 1 {
		t.Errorf("%d requests for one group", w.requests)
	}
	wantCounts(t, counts, map[string]int64{CountEvents: 203, CountAggregates: 51, CountWritten: 50, CountParked: 0})
}

// A live write can be first, and the event store needs only the events that the read model lacks.
func TestBuildContinuesFromTheWatermarkOfALiveWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, slices.Concat(historyOf("a", 5), historyOf("b", 3), historyOf("c", 4), historyOf("d", 5)[2:])...)
	w.has(t, "a", 2, 2)
	w.has(t, "b", 3, 2)
	w.has(t, "d", 2, 2)
	wantCounts(t, w.build(t), map[string]int64{CountWritten: 3})
	w.want(t, map[string]string{"a": "1,2,3,4,5,", "b": "1,2,3,", "c": "1,2,3,4,", "d": "1,2,3,4,5,"})
}

func TestBuildParksAggregatesThatCannotBeFolded(t *testing.T) {
	t.Parallel()
	poisoned, first, broken := historyOf("poisoned", 6), historyOf("poisoned-first", 2), historyOf("unreadable", 4)
	poisoned[3].poison, first[0].poison, broken[2].broken = true, true, true
	hole := historyOf("hole", 4)
	hole = append(hole[:2], hole[3])
	w := newWorld(t, slices.Concat(historyOf("good", 3), historyOf("late", 4)[2:], customer("customer", 4)[2:], poisoned, first, broken, hole)...)
	counts := w.build(t)
	for name, want := range map[string]model.Marker{
		"late":           {Reason: string(projection.ReasonHistory), EventID: 1, Head: 4, Resumes: true},
		"poisoned":       {Reason: string(projection.ReasonFunction), EventID: 4, Head: 6},
		"poisoned-first": {Reason: string(projection.ReasonFunction), EventID: 1, Head: 2},
		"unreadable":     {Reason: string(projection.ReasonMissing), EventID: 3, Head: 4, Resumes: true},
		"hole":           {Reason: string(projection.ReasonMissing), EventID: 3, Head: 4, Resumes: true},
	} {
		got := w.parked[name]
		if got.Reason != want.Reason || got.EventID != want.EventID || got.Head != want.Head || got.Resumes != want.Resumes || got.Generation != 2 {
			t.Errorf("%s is parked as %+v, want %+v", name, got, want)
		}
	}
	w.want(t, map[string]string{"good": "1,2,3,", "poisoned": "1,2,3,", "hole": "1,2,", "unreadable": "1,2,"})
	wantCounts(t, counts, map[string]int64{CountParked: 5, CountUnreadable: 1, CountAggregates: 7})
}

// While a generation is built, two documents can have one unique value, because one of them lacks
// the event that released it. The aggregate is parked until it has. That must not hold the promotion
// back until an operator acts.
func TestBuildParksAConflictUntilItEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, historyOf("a", 2)...)
	documents := w.database.Collection("orders.generation-2")
	if _, err := documents.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "applied", Value: 1}}, Options: options.Index().SetUnique(true)}); err != nil {
		t.Fatal(err)
	}
	w.has(t, "other", 2, 2)
	wantCounts(t, w.build(t), map[string]int64{CountParked: 1, CountFailed: 0})
	m := w.parked["a"]
	if m.Reason != string(projection.ReasonConflict) || m.EventID != 2 || m.Head != 2 || !m.Resumes {
		t.Fatalf("parked as %+v", m)
	}
	if _, err := documents.UpdateByID(t.Context(), "other", bson.D{{Key: "$set", Value: bson.D{{Key: "applied", Value: "3,"}}}}); err != nil {
		t.Fatal(err)
	}
	suspended := engine.Suspended{Projection: "orders", AggregateID: "a", Generation: 2, RawAggregateID: m.RawAggregateID, Head: m.Head}
	if r, err := w.engine.Resume(t.Context(), suspended); err != nil || r.Cause != nil || r.Watermark != 2 {
		t.Errorf("resumed to %+v, %v", r, err)
	}
}

// A range whose processes end again and again must not park all aggregates: each process
// continues the count of the one before.
func TestBuildEndsIfMostAggregatesFail(t *testing.T) {
	t.Parallel()
	events := histories(2*failedAtLeast, 2)
	for i := range events {
		events[i].poison = events[i].id == 2
	}
	w := newWorld(t, events...)
	workers := w.workers()
	workers.limits.histories = 10
	killed := &saver{saves: 5, stored: true}
	if err := workers.build(t.Context(), testJob, span{}, killed); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	err := workers.build(t.Context(), testJob, killed.r, &saver{saves: -1})
	// The work in flight at the end is bounded.
	if n := len(w.parked); !errors.Is(err, ErrMostlyFailing) || n < failedAtLeast || n > failedAtLeast+90 {
		t.Errorf("%d aggregates are parked, ended with %v", n, err)
	}
}

// The history is larger than any memory bound.
func TestBuildKeepsNoEventsOfALongHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(historyOf("a", 5000), historyOf("b", 1)...)...)
	workers := w.workers()
	workers.limits.long = 100
	w.do(t, workers.build)
	w.check(t)
	if w.most > 4000 {
		t.Errorf("%d events were kept", w.most)
	}
	if w.requests != 2 {
		t.Errorf("%d requests, want one write for each history", w.requests)
	}
}

// The read models are much larger than their events.
func TestBuildWritesFewLargeReadModelsTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, histories(50, 1)...)
	w.size = 1 << 20
	w.build(t)
	if w.together > batchLimits.bytes/w.size {
		t.Errorf("%d read models of %d bytes are written together", w.together, w.size)
	}
}

func TestUnknownGenerationIsLeftToOtherProcesses(t *testing.T) {
	t.Parallel()
	workers := newWorld(t).workers()
	other := job.Job{Projection: "orders", Generation: 3}
	_, _, planned := workers.plan(t.Context(), other)
	for _, err := range []error{planned, workers.build(t.Context(), other, span{}, &saver{}), workers.sweep(t.Context(), other, span{}, &saver{})} {
		if !errors.Is(err, ErrUnknownTarget) {
			t.Errorf("ended with %v", err)
		}
	}
}

// When a build returns, all its goroutines have ended. The package's leak check verifies that.
func TestBuildEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, histories(100, 4)...)
	ctx, cancel := context.WithCancelCause(t.Context())
	w.hook = func() error {
		if w.requests == 5 {
			cancel(errKilled)
		}
		return nil
	}
	workers := w.workers()
	workers.limits.histories = 1
	if err := workers.build(ctx, testJob, span{}, &saver{saves: -1}); !errors.Is(err, errKilled) {
		t.Errorf("ended with %v", err)
	}
}

// TestBuildPassesOverNoFailedRequest lets each request of a build fail once. The build ends with
// the error, or every aggregate before a saved position is written or parked.
func TestBuildPassesOverNoFailedRequest(t *testing.T) {
	t.Parallel()
	for nth, reached := 1, true; reached; nth++ {
		w := newWorld(t, histories(10, 3)...)
		w.has(t, "a-03", 1, 2)
		workers := w.workers()
		workers.limits.histories = 2
		sent := 0
		w.hook = func() error {
			if sent++; sent == nth {
				return errKilled
			}
			return nil
		}
		s := &checkedSaver{t: t, world: w}
		err := workers.build(t.Context(), testJob, span{}, s)
		if err == nil {
			err = s.Save(t.Context(), testkit.Raw(position{Events: eventstore.After(testkit.Value("z"))}), nil)
		}
		if reached = sent >= nth; !reached && (err != nil || s.saves < 5) {
			t.Errorf("no request failed, and the build ends with %v after %d saves", err, s.saves)
		}
	}
}

// checkedSaver compares every saved position with the read models.
type checkedSaver struct {
	t     *testing.T
	world *world
	saves int
}

func (s *checkedSaver) Save(_ context.Context, saved bson.Raw, _ map[string]int64) error {
	s.saves++
	var at position
	if err := bson.Unmarshal(saved, &at); err != nil {
		return err
	}
	models := s.world.models(s.t)
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	for _, e := range s.world.log {
		if before(at.Events, e) && models[e.aggregate] != applied(1, 3) && s.world.parked[e.aggregate].EventID == 0 {
			s.t.Errorf("position %v is saved, but event %d of %s is not written", at.Events, e.id, e.aggregate)
		}
	}
	return nil
}

// A live write must not wait behind a large group.
func TestBuildWritesSmallGroupsWhileLiveEventsFlow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, histories(96, 1)...)
	live := new(Activity)
	live.Begin()
	workers := w.workers(func(o *Options) { o.Pace = NewPace(PaceOptions{Live: live}) })
	workers.limits.histories = 96
	w.do(t, workers.build)
	if w.requests != liveShare {
		t.Errorf("%d writes, want %d", w.requests, liveShare)
	}
	w.check(t)
}

// A build saves its position if no event concerns the projection for a long time.
func TestBuildOfSparseEventTypesSavesItsProgress(t *testing.T) {
	t.Parallel()
	events := historyOf("zz", 2)
	for i := range 200 {
		events = append(events, customer(fmt.Sprintf("a-%03d", i), 2)...)
	}
	w := newWorld(t, events...)
	workers := w.workers()
	workers.limits.histories = 4
	killed := &saver{saves: 30, stored: true}
	if err := workers.build(t.Context(), testJob, span{}, killed); !errors.Is(err, errKilled) {
		t.Fatalf("ended with %v", err)
	}
	if seen := killed.r.counts[CountEvents]; seen < 200 || killed.r.counts[CountWritten] != 0 || !before(killed.r.position.Events, stored{aggregate: "a-100"}) {
		t.Errorf("saved position %v and counts %v, although half of the events were seen", killed.r.position, killed.r.counts)
	}
	ended := &saver{r: killed.r, saves: -1}
	if err := workers.build(t.Context(), testJob, killed.r, ended); err != nil {
		t.Fatal(err)
	}
	wantCounts(t, ended.r.counts, map[string]int64{CountEvents: 402, CountAggregates: 201, CountWritten: 1})
	w.check(t)
}
