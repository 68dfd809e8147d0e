package job_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

func TestEndedJobsAreKeptInBoundedNumber(t *testing.T) {
	t.Parallel()
	var pruned []string
	var refuse error
	s := newStore(t, job.Options{Keep: 3, Pruned: func(_ context.Context, ids []string) error {
		if refuse == nil {
			pruned = append(pruned, ids...)
		}
		return refuse
	}})
	other := s.planned(t, job.Job{ID: "other", Kind: job.Verify, Projection: "orders"}, 0)
	running := s.planned(t, job.Job{ID: "running", Kind: job.Verify, Projection: "users"}, 2)
	end := func(i int) {
		id := fmt.Sprintf("verify-%d", i)
		s.planned(t, job.Job{ID: id, Kind: job.Verify, Projection: "users"}, 1)
		if i%2 == 0 {
			if err := s.Fail(t.Context(), s.claim(t, id, "a"), errors.New("broken")); err != nil {
				t.Fatal(err)
			}
		} else if err := s.Finish(t.Context(), s.claim(t, id, "a"), nil); err != nil {
			t.Fatal(err)
		}
		s.finishedAt(t, id, i)
	}
	for i := range 4 {
		end(i)
	}
	refuse = errors.New("the findings cannot be deleted")
	end(4)
	if n := len(s.ids(t)); n < 5 {
		t.Errorf("got %d jobs; a job must stay if Pruned fails", n)
	}
	refuse = nil
	for i := 5; i < 8; i++ {
		end(i)
	}
	want := []string{other.ID, running.ID}
	left := s.ids(t)
	for _, id := range want {
		if !slices.Contains(left, id) {
			t.Errorf("%s is gone; left are %v", id, left)
		}
	}
	// Pruning after the last job ran before the test set its finishedAt.
	if len(left) > 2+4 || slices.Contains(left, "verify-0") || !slices.Contains(left, "verify-7") {
		t.Errorf("left are %v", left)
	}
	if !slices.Contains(pruned, "verify-0") || slices.Contains(pruned, "running") {
		t.Errorf("pruned %v", pruned)
	}
	if n, err := s.db.Collection(job.RangesCollectionName).CountDocuments(t.Context(), bson.D{{Key: "job", Value: bson.D{{Key: "$nin", Value: left}}}}); n != 0 || err != nil {
		t.Errorf("%d ranges of deleted jobs are left, %v", n, err)
	}
}

// The age of the last success counts from this job, and an alert depends on it.
func TestLastJobThatIsDoneIsKept(t *testing.T) {
	t.Parallel()
	s := newStore(t, job.Options{Keep: 2})
	for i, state := range []job.State{job.Done, job.Done, job.Failed, job.Failed, job.Failed, job.Failed} {
		id := fmt.Sprint("sweep-", i)
		s.planned(t, job.Job{ID: id, Kind: job.Sweep, Projection: "users"}, 1)
		c := s.claim(t, id, "a")
		if state == job.Done {
			s.must(t, s.Finish(t.Context(), c, nil))
		} else {
			s.must(t, s.Fail(t.Context(), c, errors.New("broken")))
		}
		s.finishedAt(t, id, i)
	}
	if left := slices.Sorted(slices.Values(s.ids(t))); !slices.Equal(left, []string{"sweep-1", "sweep-4", "sweep-5"}) {
		t.Errorf("left are %v", left)
	}
}

// finishedAt sets when a job has ended. Jobs are ordered by the server's clock, which has a resolution
// of milliseconds.
func (s testStore) finishedAt(t *testing.T, id string, second int) {
	t.Helper()
	_, err := s.db.Collection(job.CollectionName).UpdateOne(t.Context(), bson.D{{Key: "_id", Value: id}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "finishedAt", Value: time.Unix(int64(second), 0)}}}})
	s.must(t, err)
}

func (s testStore) ids(t *testing.T) []string {
	t.Helper()
	jobs, err := s.List(t.Context(), job.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// Without its ranges, the job would be done without any work.
func TestJobWithoutItsRangesFails(t *testing.T) {
	t.Parallel()
	s := newStore(t, job.Options{})
	s.planned(t, job.Job{ID: "verify", Kind: job.Verify, Projection: "users"}, 2)
	if _, err := s.db.Collection(job.RangesCollectionName).DeleteMany(t.Context(), bson.D{}); err != nil {
		t.Fatal(err)
	}
	s.tryClaim(t, "verify", "a")
	if j := s.get(t, "verify"); j.State != job.Failed || !strings.Contains(j.Reason, "start the work again") {
		t.Errorf("the job is %s: %s", j.State, j.Reason)
	}
}

// A job that cannot be read is left out, so that the work on the others goes on.
func TestUnreadableJobIsLeftOut(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	s := newStore(t, job.Options{Logger: zerolog.New(&log)})
	for _, id := range []string{"other-1", "other-2"} {
		if _, err := s.db.Collection(job.CollectionName).InsertOne(t.Context(), bson.D{
			{Key: "_id", Value: id}, {Key: "kind", Value: job.Build}, {Key: "projection", Value: "users"}, {Key: "state", Value: job.Planning}, {Key: "generation", Value: "x"},
			{Key: "holder", Value: "dead"}, {Key: "leaseUntil", Value: time.Now().Add(time.Hour)},
		}); err != nil {
			t.Fatal(err)
		}
	}
	j := s.planned(t, job.Job{ID: "own", Kind: job.Build, Projection: "users"}, 1)
	for range 2 {
		if active, err := s.Active(t.Context(), job.Query{Kinds: job.Kinds()}); err != nil || len(active) != 1 || active[0].ID != j.ID {
			t.Errorf("active are %v, %v", active, err)
		}
	}
	if lines := strings.Count(log.String(), "other-1"); lines != 1 {
		t.Errorf("%d lines name the record, want 1: %s", lines, log.String())
	}
	if listed, err := s.List(t.Context(), job.Filter{}); err != nil || len(listed) != 1 || listed[0].ID != j.ID {
		t.Errorf("listed are %v, %v", listed, err)
	}
	// A job with an unreadable range stays in the list.
	if _, err := s.db.Collection(job.RangesCollectionName).UpdateMany(t.Context(), bson.D{{Key: "job", Value: j.ID}}, bson.D{{Key: "$set", Value: bson.D{{Key: "counts", Value: "x"}}}}); err != nil {
		t.Fatal(err)
	}
	if listed, err := s.List(t.Context(), job.Filter{}); err != nil || len(listed) != 1 || listed[0].ID != j.ID {
		t.Errorf("listed with an unreadable range are %v, %v", listed, err)
	}
	// A process of another version may work on the job.
	if err := s.Supersede(t.Context(), "users", job.Build, "own", "test"); err == nil || !strings.Contains(err.Error(), `_id "other-1" (and 1 more) of collection jobs cannot be read`) {
		t.Errorf("superseded although a job cannot be read: %v", err)
	}
}

// TestActiveJobsAreFoundByAnIndexAmongThousandsOfEndedJobs checks that active jobs and open
// ranges are found by an index, independent of the number of other jobs.
func TestActiveJobsAreFoundByAnIndexAmongThousandsOfEndedJobs(t *testing.T) {
	t.Parallel()
	s := newStore(t, job.Options{})
	old := make([]any, 3000)
	for i := range old {
		old[i] = bson.D{
			{Key: "_id", Value: fmt.Sprintf("old-%d", i)}, {Key: "kind", Value: job.Verify}, {Key: "projection", Value: fmt.Sprint(i)},
			{Key: "state", Value: []job.State{job.Done, job.Failed, job.Cancelled}[i%3]},
		}
	}
	if _, err := s.db.Collection(job.CollectionName).InsertMany(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	j := s.planned(t, job.Job{Kind: job.Verify, Projection: "users"}, 1)
	active, err := s.Active(t.Context(), job.Query{Kinds: job.Kinds()})
	if err != nil || len(active) != 1 || active[0].ID != j.ID {
		t.Errorf("active are %v, %v", active, err)
	}
	for collection, filter := range map[string]bson.D{
		job.CollectionName: {
			{Key: "state", Value: bson.D{{Key: "$in", Value: bson.A{job.Planning, job.Running}}}},
			{Key: "kind", Value: bson.D{{Key: "$in", Value: job.Kinds()}}},
		},
		job.RangesCollectionName: {{Key: "job", Value: j.ID}, {Key: "plan", Value: j.Epoch}, {Key: "done", Value: false}},
	} {
		var plan bson.Raw
		if err := s.db.RunCommand(t.Context(), bson.D{{Key: "explain", Value: bson.D{{Key: "find", Value: collection}, {Key: "filter", Value: filter}}}, {Key: "verbosity", Value: "queryPlanner"}}).Decode(&plan); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(plan.String(), "IXSCAN") || strings.Contains(plan.String(), "COLLSCAN") {
			t.Errorf("%s: the plan is %s", collection, plan)
		}
	}
}

func TestMetricsShowJobsAndTheStalledJob(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	s := newStore(t, job.Options{Registerer: registry, Refresh: time.Millisecond})
	s.planned(t, job.Job{ID: "done", Kind: job.Build, Projection: "users"}, 0)
	s.planned(t, job.Job{ID: "still", Kind: job.Verify, Projection: "users"}, 1)
	s.planned(t, job.Job{ID: "moving", Kind: job.Sweep, Projection: "users"}, 1)
	for _, id := range []string{"still", "moving"} {
		if _, err := s.db.Collection(job.CollectionName).UpdateOne(t.Context(), bson.D{{Key: "_id", Value: id}},
			bson.D{{Key: "$set", Value: bson.D{{Key: "progressedAt", Value: time.Now().Add(-time.Hour)}}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Save(t.Context(), s.claim(t, "moving", "a"), nil, nil, lease); err != nil {
		t.Fatal(err)
	}
	if j, err := s.Get(t.Context(), "moving"); err != nil || time.Since(j.Progressed) > time.Minute {
		t.Errorf("the job that was saved a moment ago is said to have progressed at %v: %v", j.Progressed, err)
	}
	testkit.Start(t, s.Run)
	gauge := func(name string, labels ...string) float64 { return testkit.Metric(t, registry, name, labels...) }
	const ages, counts = "penstock_projector_job_progress_age_seconds", "penstock_projector_jobs"
	for gauge(counts, "build", "done") != 1 {
		if t.Context().Err() != nil {
			t.Fatal("the job that is done was not counted")
		}
	}
	if still := gauge(ages, "verify"); still < 3600 || still > 4000 {
		t.Errorf("the job without progress has the age %v", still)
	}
	if moving := gauge(ages, "sweep"); moving > 1000 {
		t.Errorf("the job that was saved a moment ago has the age %v", moving)
	}
	if build := gauge(ages, "build"); build != 0 {
		t.Errorf("jobs that are done have the age %v", build)
	}
	for _, labels := range [][]string{{"verify", "running"}, {"sweep", "running"}} {
		if n := gauge(counts, labels...); n != 1 {
			t.Errorf("%v jobs of %v", n, labels)
		}
	}
}

func TestAwaitReportsUntilTheJobHasEnded(t *testing.T) {
	t.Parallel()
	s := newStore(t, job.Options{})
	j := s.planned(t, job.Job{Kind: job.Verify, Projection: "users"}, 1)
	c := s.claim(t, j.ID, "a")
	var seen []job.State
	ended, err := s.Await(t.Context(), j.ID, time.Millisecond, func(now job.Job) {
		seen = append(seen, now.State)
		if len(seen) == 2 {
			if err := s.Finish(t.Context(), c, map[string]int64{"events": 9}); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil || ended.State != job.Done || ended.Counts["events"] != 9 || !slices.Equal(seen, []job.State{job.Running, job.Running, job.Done}) {
		t.Errorf("ended as %+v, %v, after %v", ended, err, seen)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	waiting := s.planned(t, job.Job{Kind: job.Verify, Projection: "users"}, 1)
	if _, err := s.Await(ctx, waiting.ID, time.Hour, func(job.Job) { stop(interrupted) }); !errors.Is(err, interrupted) {
		t.Errorf("error %v", err)
	}
	if _, err := s.Await(t.Context(), "nobody", time.Millisecond, nil); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}
