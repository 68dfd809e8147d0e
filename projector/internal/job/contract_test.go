package job_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// testStore is a store with what tests do on it.
type testStore struct {
	*job.Store
	db *mongo.Database
}

func newStore(t *testing.T, o job.Options) testStore {
	t.Helper()
	db := server.Database(t)
	if err := job.Prepare(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return testStore{job.NewStore(db, o), db}
}

// expire ends every lease.
func (s testStore) expire(t *testing.T) {
	t.Helper()
	for _, name := range []string{job.CollectionName, job.RangesCollectionName} {
		if _, err := s.db.Collection(name).UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "leaseUntil", Value: time.Unix(0, 0)}}}}); err != nil {
			t.Fatal(err)
		}
	}
}

const lease = time.Minute

func raw(n int) bson.Raw {
	return testkit.Raw(bson.D{{Key: "n", Value: n}})
}

// parts are the parts of a plan with n ranges.
func parts(n int) []bson.Raw {
	p := make([]bson.Raw, n)
	for i := range p {
		p[i] = raw(i)
	}
	return p
}

func (s testStore) create(t *testing.T, j job.Job) job.Job {
	t.Helper()
	created, err := s.Create(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// claim claims a range for a holder. If there is nothing to claim, the test fails.
func (s testStore) claim(t *testing.T, id, holder string) job.Claim {
	t.Helper()
	c, ok := s.tryClaim(t, id, holder)
	if !ok {
		t.Fatalf("%s has nothing to claim", id)
	}
	return c
}

func (s testStore) tryClaim(t *testing.T, id, holder string) (job.Claim, bool) {
	t.Helper()
	active, err := s.Active(t.Context(), job.Query{Kinds: job.Kinds(), Only: id})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range active {
		if j.ID != id {
			t.Errorf("asked for %s, got %s", id, j.ID)
		}
		c, ok, err := s.Claim(t.Context(), j, holder, lease)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return c, true
		}
	}
	return job.Claim{}, false
}

// planned creates a job with the given number of ranges.
func (s testStore) planned(t *testing.T, j job.Job, ranges int) job.Job {
	t.Helper()
	created := s.create(t, j)
	c := s.claim(t, created.ID, "planner")
	if !c.Planning {
		t.Fatalf("claimed %+v, want the planning", c)
	}
	if err := s.Plan(t.Context(), c, parts(ranges), 100); err != nil {
		t.Fatal(err)
	}
	return s.get(t, created.ID)
}

func (s testStore) get(t *testing.T, id string) job.Job {
	t.Helper()
	j, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (s testStore) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

func TestRangesAreClaimedOnceAndTheLastOneCompletesTheJob(t *testing.T) {
	t.Parallel()
	s := newStore(t, job.Options{})
	j := s.planned(t, job.Job{Kind: job.Verify, Projection: "users", Generation: 2, Who: "me", Why: "to see"}, 2)
	if j.State != job.Running || j.Ranges != 2 || j.Total != 100 || j.Generation != 2 || j.Who != "me" || j.Why != "to see" || j.Created.IsZero() || j.Started.IsZero() {
		t.Errorf("job is %+v", j)
	}
	first, second := s.claim(t, j.ID, "a"), s.claim(t, j.ID, "b")
	if first.Range.Index != 0 || second.Range.Index != 1 || first.Range.Holder != "a" || first.Range.Part.Lookup("n").AsInt64() != 0 || second.Range.Part.Lookup("n").AsInt64() != 1 {
		t.Errorf("claimed %+v and %+v", first.Range, second.Range)
	}
	if c, ok := s.tryClaim(t, j.ID, "c"); ok {
		t.Errorf("claimed %+v although every range is leased", c)
	}
	s.must(t, s.Save(t.Context(), first, raw(7), map[string]int64{"events": 3}, lease))
	if j := s.get(t, j.ID); j.Counts["events"] != 3 || j.RangesDone != 0 {
		t.Errorf("job is %+v", j)
	}
	s.must(t, s.Finish(t.Context(), first, map[string]int64{"events": 5}))
	if j := s.get(t, j.ID); j.Counts["events"] != 5 || j.RangesDone != 1 || j.State != job.Running {
		t.Errorf("job is %+v", j)
	}
	s.must(t, s.Finish(t.Context(), second, map[string]int64{"events": 6, "different": 1}))
	if j := s.get(t, j.ID); j.State != job.Done || j.RangesDone != 2 || !maps.Equal(j.Counts, map[string]int64{"events": 11, "different": 1}) || j.Finished.IsZero() {
		t.Errorf("job is %+v", j)
	}
	if n, err := s.db.Collection(job.RangesCollectionName).CountDocuments(t.Context(), bson.D{}); n != 0 || err != nil {
		t.Errorf("%d ranges of the done job are left, %v", n, err)
	}
}

func TestExpiredRangeContinuesAtItsSavedPosition(t *testing.T) {
	t.Parallel()
	s := newStore(t, job.Options{})
	j := s.planned(t, job.Job{Kind: job.Build, Projection: "users"}, 1)
	killed := s.claim(t, j.ID, "killed")
	s.must(t, s.Save(t.Context(), killed, raw(7), map[string]int64{"events": 3}, lease))
	s.expire(t)
	heir := s.claim(t, j.ID, "heir")
	if heir.Range.Position.Lookup("n").AsInt64() != 7 || heir.Range.Counts["events"] != 3 || heir.Epoch <= killed.Epoch {
		t.Errorf("claimed %+v", heir.Range)
	}
	// The first holder was only suspended and sends its requests late.
	wantError(t, s.Save(t.Context(), killed, raw(99), map[string]int64{"events": 99}, lease), job.ErrLost)
	wantError(t, s.Keep(t.Context(), killed, lease), job.ErrLost)
	wantError(t, s.Finish(t.Context(), killed, nil), job.ErrLost)
	wantError(t, s.Fail(t.Context(), killed, errors.New("broken")), job.ErrLost)
	wantError(t, s.Return(t.Context(), killed, 0, nil), job.ErrLost)
	s.must(t, s.Finish(t.Context(), heir, map[string]int64{"events": 4}))
	if j := s.get(t, j.ID); j.State != job.Done || j.Counts["events"] != 4 {
		t.Errorf("job is %+v", j)
	}
}

func TestKeepExtendsTheLease(t *testing.T) {
	t.Parallel()
	s := newStore(t, job.Options{})
	j := s.planned(t, job.Job{Kind: job.Build, Projection: "users"}, 1)
	c := s.claim(t, j.ID, "a")
	s.expire(t)
	s.must(t, s.Keep(t.Context(), c, lease))
	if _, ok := s.tryClaim(t, j.ID, "b"); ok {
		t.Error("claimed although the lease was extended")
	}
	s.expire(t)
	s.must(t, s.Save(t.Context(), c, nil, nil, lease))
	if _, ok := s.tryClaim(t, j.ID, "b"); ok {
		t.Error("claimed although the save extended the lease")
	}
}

func TestReturnedRangeIsClaimedAtOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t, job.Options{})
	j := s.planned(t, job.Job{Kind: job.Build, Projection: "users"}, 1)
	c := s.claim(t, j.ID, "a")
	s.must(t, s.Save(t.Context(), c, raw(1), map[string]int64{"events": 1}, lease))
	s.must(t, s.Return(t.Context(), c, 0, nil))
	again := s.claim(t, j.ID, "b")
	if again.Range.Counts["events"] != 1 || again.Range.Attempts != 0 {
		t.Errorf("claimed %+v", again.Range)
	}
	wantError(t, s.Save(t.Context(), c, nil, nil, lease), job.ErrLost)
	s.must(t, s.Return(t.Context(), again, time.Hour, errors.New("no primary")))
	if _, ok := s.tryClaim(t, j.ID, "c"); ok {
		t.Error("claimed before the delay is over")
	}
	if j := s.get(t, j.ID); j.Reason != "no primary" {
		t.Errorf("job is %+v", j)
	}
	s.expire(t)
	third := s.claim(t, j.ID, "c")
	if third.Range.Attempts != 1 {
		t.Errorf("claimed %+v", third.Range)
	}
	s.must(t, s.Save(t.Context(), third, nil, nil, lease))
	if j := s.get(t, j.ID); j.Reason != "" {
		t.Errorf("after a save, the job is %+v", j)
	}
}

// With the ranges of a replaced planner under the epoch of its successor, the job would lack all of
// them and fail.
func TestPlannerThatWasReplacedChangesNothing(t *testing.T) {
	t.Parallel()
	s := newStore(t, job.Options{})
	j := s.create(t, job.Job{Kind: job.Build, Projection: "users"})
	stopped := s.claim(t, j.ID, "stopped")
	if _, ok := s.tryClaim(t, j.ID, "b"); ok {
		t.Error("planning claimed twice")
	}
	s.expire(t)
	heir := s.claim(t, j.ID, "heir")
	wantError(t, s.Plan(t.Context(), stopped, parts(3), 0), job.ErrLost)
	wantError(t, s.Fail(t.Context(), stopped, errors.New("broken")), job.ErrLost)
	s.must(t, s.Plan(t.Context(), heir, parts(2), 0))
	wantError(t, s.Plan(t.Context(), stopped, parts(5), 0), job.ErrLost)
	wantError(t, s.Keep(t.Context(), stopped, lease), job.ErrLost)
	for range 2 {
		s.must(t, s.Finish(t.Context(), s.claim(t, j.ID, "b"), nil))
	}
	if j := s.get(t, j.ID); j.State != job.Done || j.Ranges != 2 {
		t.Errorf("job is %+v", j)
	}
}

func TestPlanningIsReturned(t *testing.T) {
	t.Parallel()
	s := newStore(t, job.Options{})
	j := s.create(t, job.Job{Kind: job.Build, Projection: "users"})
	c := s.claim(t, j.ID, "a")
	s.must(t, s.Return(t.Context(), c, 0, errors.New("no primary")))
	again := s.claim(t, j.ID, "b")
	if again.Job.Attempts != 1 || s.get(t, j.ID).Reason != "no primary" {
		t.Errorf("claimed %+v", again.Job)
	}
	s.expire(t)
	s.must(t, s.Plan(t.Context(), s.claim(t, j.ID, "b"), parts(1), 0))
	if j := s.get(t, j.ID); j.State != job.Running || j.Ranges != 1 || j.Reason != "" {
		t.Errorf("job is %+v", j)
	}
	if n, err := s.db.Collection(job.RangesCollectionName).CountDocuments(t.Context(), bson.D{}); n != 1 || err != nil {
		t.Errorf("%d ranges are stored, also of the earlier plan: %v", n, err)
	}
}

func TestJobWithoutRangesIsDoneAtOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t, job.Options{})
	if j := s.planned(t, job.Job{Kind: job.Build, Projection: "users"}, 0); j.State != job.Done || j.Finished.IsZero() {
		t.Errorf("job is %+v", j)
	}
}

func TestFailedJobKeepsItsCounts(t *testing.T) {
	t.Parallel()
	s := newStore(t, job.Options{})
	j := s.planned(t, job.Job{Kind: job.Build, Projection: "users"}, 2)
	first, second := s.claim(t, j.ID, "a"), s.claim(t, j.ID, "b")
	s.must(t, s.Finish(t.Context(), first, map[string]int64{"events": 3}))
	s.must(t, s.Fail(t.Context(), second, errors.New("the shadow collection is gone")))
	if j := s.get(t, j.ID); j.State != job.Failed || j.Reason != "the shadow collection is gone" || j.Counts["events"] != 3 || j.Finished.IsZero() {
		t.Errorf("job is %+v", j)
	}
	if _, ok := s.tryClaim(t, j.ID, "c"); ok {
		t.Error("claimed a range of a failed job")
	}
}

func TestCancelledJobStopsItsHolders(t *testing.T) {
	t.Parallel()
	s := newStore(t, job.Options{})
	j := s.planned(t, job.Job{Kind: job.Build, Projection: "users"}, 2)
	c := s.claim(t, j.ID, "a")
	for range 2 {
		if j, err := s.Cancel(t.Context(), j.ID, "not needed"); err != nil || j.State != job.Cancelled || j.Reason != "not needed" {
			t.Errorf("cancelled: %+v, %v", j, err)
		}
	}
	wantError(t, s.Save(t.Context(), c, nil, nil, lease), job.ErrCancelled)
	wantError(t, s.Keep(t.Context(), c, lease), job.ErrCancelled)
	wantError(t, s.Finish(t.Context(), c, nil), job.ErrCancelled)
	_, err := s.Cancel(t.Context(), "nobody", "")
	wantError(t, err, job.ErrNotFound)
	done := s.planned(t, job.Job{Kind: job.Build, Projection: "users"}, 0)
	_, err = s.Cancel(t.Context(), done.ID, "")
	wantError(t, err, job.ErrState)
}

func TestSupersedeCancelsTheJobsThatAreNotKept(t *testing.T) {
	t.Parallel()
	s := newStore(t, job.Options{})
	old := s.planned(t, job.Job{Kind: job.Build, Projection: "users", Generation: 2}, 1)
	kept := s.planned(t, job.Job{Kind: job.Build, Projection: "users", Generation: 3}, 1)
	verify := s.planned(t, job.Job{Kind: job.Verify, Projection: "users", Generation: 1}, 1)
	other := s.planned(t, job.Job{Kind: job.Build, Projection: "orders", Generation: 2}, 1)
	s.must(t, s.Supersede(t.Context(), "users", job.Build, kept.ID, "superseded by generation 3"))
	for id, want := range map[string]job.State{old.ID: job.Cancelled, kept.ID: job.Running, verify.ID: job.Running, other.ID: job.Running} {
		if j := s.get(t, id); j.State != want {
			t.Errorf("job is %+v, want %s", j, want)
		}
	}
}

func TestCreateIsRepeatable(t *testing.T) {
	t.Parallel()
	s := newStore(t, job.Options{})
	j := s.planned(t, job.Job{ID: "build-users-2", Kind: job.Build, Projection: "users", Generation: 2, Params: raw(5)}, 1)
	again, err := s.Create(t.Context(), job.Job{ID: "build-users-2", Kind: job.Build, Projection: "users", Generation: 2})
	if err != nil || again.State != job.Running || again.Created != j.Created || again.Params.Lookup("n").AsInt64() != 5 {
		t.Errorf("created %+v, %v", again, err)
	}
	_, err = s.Create(t.Context(), job.Job{ID: "build-users-2", Kind: job.Build, Projection: "orders", Generation: 2})
	wantError(t, err, job.ErrExists)
	if first, second := s.create(t, job.Job{Kind: job.Verify}), s.create(t, job.Job{Kind: job.Verify}); first.ID == second.ID {
		t.Errorf("two jobs are %s", first.ID)
	}
}

func TestActiveJobsOfOtherKindsAreNotSeen(t *testing.T) {
	t.Parallel()
	s := newStore(t, job.Options{})
	for _, id := range []string{"b", "a"} {
		s.create(t, job.Job{ID: id, Kind: job.Verify, Projection: id})
	}
	s.create(t, job.Job{ID: "aa", Kind: job.Build})
	active, err := s.Active(t.Context(), job.Query{Kinds: []job.Kind{job.Verify}})
	if err != nil || len(active) != 2 || active[0].ID != "a" || active[1].ID != "b" {
		t.Errorf("active %+v, %v", active, err)
	}
}
