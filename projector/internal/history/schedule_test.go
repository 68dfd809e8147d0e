package history_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// schedule has the schedulers of two processes, and their jobs.
type schedule struct {
	t          *testing.T
	jobs       *job.Store
	stored     *mongotest.Collection
	live       map[string]int64
	held       bool
	registry   *prometheus.Registry
	schedulers []*history.Scheduler
}

func newSchedule(t *testing.T) *schedule {
	t.Helper()
	db := history.Server.Database(t)
	s := &schedule{t: t, live: map[string]int64{"visits": 1}, registry: prometheus.NewPedanticRegistry(), stored: history.Server.Collection(db.Collection(job.CollectionName))}
	s.jobs = job.Open(s.stored, db.Collection(job.RangesCollectionName), job.Options{})
	for i, registerer := range []prometheus.Registerer{s.registry, nil} {
		s.schedulers = append(s.schedulers, history.NewScheduler(history.SchedulerOptions{
			Jobs: s.jobs, Live: func() map[string]int64 { return s.live }, Replaceable: func(string) bool { return s.held }, Interval: time.Hour, Pod: fmt.Sprint(i), Registerer: registerer, Logger: zerolog.Nop(),
		}))
	}
	return s
}

// beat is a beat of both processes. It returns the sweeps, the oldest first.
func (s *schedule) beat() []job.Job {
	s.t.Helper()
	for _, scheduler := range s.schedulers {
		if err := scheduler.Beat(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
	return s.sweeps()
}

func (s *schedule) sweeps() []job.Job {
	s.t.Helper()
	found, err := s.jobs.List(s.t.Context(), job.Filter{Kinds: []job.Kind{job.Reconcile}})
	if err != nil {
		s.t.Fatal(err)
	}
	slices.Reverse(found)
	return found
}

// end ends a sweep: its process plans no range, or fails.
func (s *schedule) end(sweep job.Job, failure error) {
	s.t.Helper()
	claim, ok, err := s.jobs.Claim(s.t.Context(), sweep, "test", time.Minute)
	if err == nil && ok {
		if failure != nil {
			err = s.jobs.Fail(s.t.Context(), claim, failure)
		} else {
			err = s.jobs.Plan(s.t.Context(), claim, nil, 0)
		}
	}
	if err != nil || !ok {
		s.t.Fatalf("claimed %v: %v", ok, err)
	}
}

// later lets the server's clock go on for the requests.
func (s *schedule) later(d time.Duration) { s.stored.Ahead += d }

// Processes start the same sweep, and the next one when the interval is over.
func TestSweepsFollowEachOther(t *testing.T) {
	t.Parallel()
	s := newSchedule(t)
	first := s.beat()
	if len(first) != 1 || first[0].Kind != job.Reconcile || first[0].Projection != "visits" || first[0].Generation != 1 {
		t.Fatalf("sweeps are %+v", first)
	}
	var params history.Params
	if err := bson.Unmarshal(first[0].Params, &params); err != nil || params != (history.Params{GraceMillis: 30_000}) {
		t.Errorf("the parameters are %+v, %v", params, err)
	}
	s.later(2 * time.Hour)
	if sweeps := s.beat(); len(sweeps) != 1 {
		t.Errorf("a sweep began beside another one: %+v", sweeps)
	}
	s.end(first[0], nil)
	s.later(59 * time.Minute)
	if sweeps := s.beat(); len(sweeps) != 1 {
		t.Errorf("the next sweep began early: %+v", sweeps)
	}
	const metric = "penstock_projector_verified_through_timestamp_seconds"
	if n, err := testutil.GatherAndCount(s.registry, metric); err != nil || n != 1 {
		t.Errorf("%d values of %s, %v", n, metric, err)
	}
	s.later(2 * time.Minute)
	if sweeps := s.beat(); len(sweeps) != 2 || sweeps[1].State != job.Planning {
		t.Errorf("the next sweep did not begin: %+v", sweeps)
	}
}

// Sweeps follow each other also if the server's clock is set back while one of them runs.
func TestSweepsGoOnAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	s := newSchedule(t)
	sweeps := s.beat()
	ahead := bson.D{{Key: "$set", Value: bson.D{{Key: "createdAt", Value: time.Now().Add(10 * time.Hour)}}}}
	if _, err := s.stored.UpdateOne(t.Context(), bson.D{}, ahead); err != nil {
		t.Fatal(err)
	}
	for n := 1; n < 4; n++ {
		if len(sweeps) != n {
			t.Fatalf("%d sweeps, want %d: %+v", len(sweeps), n, sweeps)
		}
		s.end(sweeps[slices.IndexFunc(sweeps, func(j job.Job) bool { return j.State == job.Planning })], nil)
		s.later(61 * time.Minute)
		sweeps = s.beat()
	}
}

// A failed sweep is repeated before the interval is over.
func TestFailedSweepIsRepeated(t *testing.T) {
	t.Parallel()
	s := newSchedule(t)
	s.end(s.beat()[0], fmt.Errorf("no index"))
	s.later(9 * time.Minute)
	if sweeps := s.beat(); len(sweeps) != 1 {
		t.Errorf("the sweep was repeated early: %+v", sweeps)
	}
	s.later(2 * time.Minute)
	if sweeps := s.beat(); len(sweeps) != 2 {
		t.Errorf("the sweep was not repeated: %+v", sweeps)
	}
	if n, err := testutil.GatherAndCount(s.registry, "penstock_projector_verified_through_timestamp_seconds"); err != nil || n != 0 {
		t.Errorf("a failed sweep has verified something: %d values, %v", n, err)
	}
}

// A sweep of a replaced generation would never end. A process that has not heard of the new
// generation yet does not start the old one's again.
func TestSweepOfANewGenerationEndsTheOlderOne(t *testing.T) {
	t.Parallel()
	s := newSchedule(t)
	ctx := t.Context()
	for _, j := range []job.Job{{ID: "build", Kind: job.Build, Projection: "visits", Generation: 2}, {ID: "other", Kind: job.Reconcile, Projection: "items", Generation: 1}} {
		if _, err := s.jobs.Create(ctx, j); err != nil {
			t.Fatal(err)
		}
	}
	s.held = true
	if early := s.beat(); len(early) != 1 {
		t.Errorf("a sweep has begun that would heal nothing: %v", early)
	}
	s.held = false
	old := s.beat()
	s.live = map[string]int64{"visits": 2}
	s.beat()
	s.live = map[string]int64{"visits": 1}
	states := map[string]job.State{}
	for _, sweep := range s.beat() {
		states[fmt.Sprint(sweep.Projection, " ", sweep.Generation)] = sweep.State
	}
	if len(old) != 2 || len(states) != 3 || states["visits 1"] != job.Cancelled || states["visits 2"] != job.Planning || states["items 1"] != job.Planning {
		t.Errorf("sweeps are %v", states)
	}
	if build, err := s.jobs.Get(ctx, "build"); err != nil || build.State != job.Planning {
		t.Errorf("the build is %s, %v", build.State, err)
	}
}

// No pod works on the sweep of a retired projection, so it would never end.
func TestSweepOfARetiredProjectionEnds(t *testing.T) {
	t.Parallel()
	s := newSchedule(t)
	s.beat()
	s.live["visits"] = 0
	if sweeps := s.beat(); len(sweeps) != 1 || sweeps[0].State != job.Cancelled {
		t.Errorf("sweeps are %+v", sweeps)
	}
}

// The setting may change while a sweep runs. A sweep is worked on in the form in which it was
// started.
func TestSweepKeepsItsForm(t *testing.T) {
	t.Parallel()
	for _, content := range []bool{false, true} {
		jobs := job.NewStore(history.Server.Database(t), job.Options{})
		scheduler := history.NewScheduler(history.SchedulerOptions{Jobs: jobs, Live: func() map[string]int64 { return map[string]int64{"p": 1} }, Replaceable: func(string) bool { return false }, Interval: time.Hour, Content: content})
		if err := scheduler.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		found, err := jobs.List(t.Context(), job.Filter{})
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		if verifies, err := history.Verifies(found[0]); err != nil || verifies != content {
			t.Errorf("content %v: the sweep verifies: %v, %v", content, verifies, err)
		}
	}
	if _, err := history.Verifies(job.Job{ID: "broken", Kind: job.Reconcile, Params: bson.Raw{1}}); err == nil {
		t.Error("parameters that cannot be read are accepted")
	}
}

// A verification whose generation is gone must be claimed, because only then it fails. That of another
// pipeline must not.
func TestVerificationNeedsNoTarget(t *testing.T) {
	t.Parallel()
	w := history.New(history.Options{
		Targets: func() []engine.Target { return nil }, Registerer: prometheus.NewRegistry(),
		Target: func(_ context.Context, projection string, _ int64) (engine.Target, error) {
			if projection == "of another pipeline" {
				return engine.Target{}, job.ErrNotHere
			}
			return engine.Target{}, job.Permanent(errors.New("there is no such generation"))
		},
	})
	for j, want := range map[*job.Job]bool{
		{Kind: job.Verify, Projection: "p"}: true, {Kind: job.Verify, Projection: "of another pipeline"}: false,
		{Kind: job.Build, Projection: "p"}: false, {Kind: job.Sweep, Projection: "p"}: false,
	} {
		if got := w.Serves(t.Context(), *j); got != want {
			t.Errorf("%s of %s: %v", j.Kind, j.Projection, got)
		}
	}
}
