package job_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// virtualStore is a store in virtual time.
type virtualStore struct {
	testStore
	jobs, ranges *mongotest.Collection
}

func newVirtualStore(t *testing.T) virtualStore {
	t.Helper()
	db := server.Database(t)
	jobs, ranges := server.Collection(db.Collection(job.CollectionName)), server.Collection(db.Collection(job.RangesCollectionName))
	return virtualStore{testStore{job.Open(jobs, ranges, job.Options{}), db}, jobs, ranges}
}

// counter is a worker that counts the numbers of a range, one per step.
type counter struct {
	mu sync.Mutex
	// ranges is the number of ranges that Plan returns, and steps the number of steps of
	// each.
	ranges, steps int
	// step runs before each step. Work returns its error.
	step func(ctx context.Context, j job.Job, r job.Range, n int64) error
	// worked are the steps as "job/range", in order.
	worked    []string
	busy, max int
}

func (c *counter) Plan(context.Context, job.Job) ([]bson.Raw, int64, error) {
	return parts(c.ranges), int64(c.ranges * c.steps), nil
}

func (c *counter) Work(ctx context.Context, j job.Job, r job.Range, p job.Progress) error {
	c.mu.Lock()
	c.busy++
	c.max = max(c.max, c.busy)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.busy--
		c.mu.Unlock()
	}()
	n := int64(0)
	if r.Position != nil {
		n = r.Position.Lookup("n").AsInt64()
	}
	counts := map[string]int64{}
	maps.Copy(counts, r.Counts)
	for ; n < int64(c.steps); n++ {
		if c.step != nil {
			if err := c.step(ctx, j, r, n); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.mu.Lock()
		c.worked = append(c.worked, fmt.Sprintf("%s/%d", j.ID, r.Index))
		c.mu.Unlock()
		counts["steps"]++
		if err := p.Save(ctx, testkit.Raw(bson.D{{Key: "n", Value: n + 1}}), counts); err != nil {
			return err
		}
	}
	return nil
}

func (c *counter) steppedBy() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.worked)
}

// pause lets time pass in a step.
func pause(d time.Duration) func(context.Context, job.Job, job.Range, int64) error {
	return func(ctx context.Context, _ job.Job, _ job.Range, _ int64) error {
		return poll.Wait(ctx, d)
	}
}

// run runs a runner until the test's end or until stop is called, which waits for it.
func run(t *testing.T, o job.RunnerOptions) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- job.NewRunner(o).Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// slowClaims answers a claim only after a while, and then nothing more.
type slowClaims struct {
	*job.Store
	takes   time.Duration
	claimed bool
}

func (s *slowClaims) Claim(ctx context.Context, j job.Job, holder string, lease time.Duration) (job.Claim, bool, error) {
	if s.claimed {
		return job.Claim{}, false, errors.New("no primary")
	}
	s.claimed = true
	c, ok, err := s.Store.Claim(ctx, j, holder, lease)
	<-time.After(s.takes)
	return c, ok, err
}

func (s *slowClaims) Keep(context.Context, job.Claim, time.Duration) error {
	return errors.New("no primary")
}

// held records for how long a range was worked on.
type held struct{ until time.Time }

func (h *held) Plan(context.Context, job.Job) ([]bson.Raw, int64, error) { return nil, 0, nil }

func (h *held) Work(ctx context.Context, _ job.Job, _ job.Range, _ job.Progress) error {
	<-ctx.Done()
	h.until = time.Now()
	return context.Cause(ctx)
}

// A lease begins when the server grants it. If the answer takes long, little of the lease is
// left, and another process may have the range soon.
func TestWorkEndsWithALeaseWhoseClaimWasAnsweredLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVirtualStore(t)
		s.planned(t, job.Job{ID: "users", Kind: job.Verify, Projection: "users"}, 1)
		begun := time.Now()
		var h held
		stop := run(t, job.RunnerOptions{Jobs: &slowClaims{Store: s.Store, takes: 20 * time.Second}, Workers: verifying(&h), Holder: "a", Parallel: 1})
		<-time.After(2 * time.Minute)
		stop()
		if lasted := h.until.Sub(begun); h.until.IsZero() || lasted > 30*time.Second {
			t.Errorf("worked until %v after the claim", lasted)
		}
	})
}

func verifying(w job.Worker) map[job.Kind]job.Worker { return map[job.Kind]job.Worker{job.Verify: w} }

func newJob(t *testing.T, s virtualStore, id string, k job.Kind) {
	t.Helper()
	if _, err := s.Create(t.Context(), job.Job{ID: id, Kind: k, Projection: id}); err != nil {
		t.Fatal(err)
	}
}

func wantDone(t *testing.T, s virtualStore, id string, steps int64) {
	t.Helper()
	if j, err := s.Get(t.Context(), id); err != nil || j.State != job.Done || j.Counts["steps"] != steps {
		t.Errorf("job is %+v, %v; want %d steps", j, err, steps)
	}
}

func TestTwoRunnersShareAJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVirtualStore(t)
		newJob(t, s, "a", job.Verify)
		first, second := &counter{ranges: 8, steps: 5, step: pause(time.Second)}, &counter{ranges: 8, steps: 5, step: pause(time.Second)}
		defer run(t, job.RunnerOptions{Jobs: s, Workers: verifying(first), Holder: "1", Parallel: 2})()
		defer run(t, job.RunnerOptions{Jobs: s, Workers: verifying(second), Holder: "2", Parallel: 3})()
		testkit.Pass(time.Minute)
		wantDone(t, s, "a", 40)
		if first.max != 2 || second.max != 3 {
			t.Errorf("worked on %d and %d ranges at a time, want 2 and 3", first.max, second.max)
		}
	})
}

// A small job is done by the process that plans it: no range is stored.
func TestSmallJobIsDoneWhereItIsPlanned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVirtualStore(t)
		newJob(t, s, "a", job.Verify)
		failures := 1
		worker := &counter{ranges: 3, steps: 5, step: func(ctx context.Context, _ job.Job, r job.Range, n int64) error {
			if r.Index == 1 && n == 3 && failures > 0 {
				failures--
				return errors.New("once")
			}
			return pause(20*time.Second)(ctx, job.Job{}, r, n)
		}}
		ranges := 0
		s.ranges.Before = func(_ context.Context, request string) error {
			if request == mongotest.BulkWrite {
				ranges++
			}
			return nil
		}
		stop := run(t, job.RunnerOptions{Jobs: s, Workers: verifying(worker), Holder: "1", Small: 15})
		defer func() { stop() }()
		testkit.Pass(15 * time.Minute)
		wantDone(t, s, "a", 15)
		if ranges > 0 {
			t.Errorf("ranges were stored %d times", ranges)
		}
	})
}

func TestNoJobBlocksAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVirtualStore(t)
		newJob(t, s, "a-large", job.Verify)
		newJob(t, s, "b-of-another-kind", job.Build)
		newJob(t, s, "d-small", job.Verify)
		w := &counter{ranges: 40, steps: 1, step: pause(time.Second)}
		defer run(t, job.RunnerOptions{Jobs: s, Workers: verifying(w), Holder: "1", Parallel: 1})()
		testkit.Pass(40 * time.Second)
		seen := map[string]int{}
		for _, step := range w.steppedBy() {
			seen[step[:1]]++
		}
		if seen["a"] < 15 || seen["d"] < 15 || seen["b"] > 0 {
			t.Errorf("steps of each job: %v", seen)
		}
		testkit.Pass(time.Minute)
		wantDone(t, s, "a-large", 40)
		wantDone(t, s, "d-small", 40)
		if j, _ := s.Get(t.Context(), "b-of-another-kind"); j.State != job.Planning || j.Epoch != 0 {
			t.Errorf("a job without a worker here is %+v", j)
		}
	})
}

func TestIdleRunnerSearchesByOneRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVirtualStore(t)
		var searched atomic.Int64
		s.jobs.Before = func(_ context.Context, request string) error {
			if request == mongotest.Find {
				searched.Add(1)
			}
			return nil
		}
		newJob(t, s, "a", job.Verify)
		defer run(t, job.RunnerOptions{Jobs: s, Workers: verifying(&counter{ranges: 1, steps: 1}), Holder: "1"})()
		testkit.Pass(time.Minute)
		wantDone(t, s, "a", 1)
		before := searched.Load()
		testkit.Pass(10 * time.Minute)
		// Two searches are between half a second and one and a half apart.
		if n := searched.Load() - before; n < 500 || n > 720 {
			t.Errorf("%d requests in ten minutes", n)
		}
	})
}

// leased are jobs all of whose ranges are leased.
type leased struct {
	job.Jobs
	active []job.Job
	claims int
}

func (l *leased) Active(context.Context, job.Query) ([]job.Job, error) { return l.active, nil }

func (l *leased) Claim(context.Context, job.Job, string, time.Duration) (job.Claim, bool, error) {
	l.claims++
	<-time.After(2 * time.Millisecond)
	return job.Claim{}, false, nil
}

// The idle processes ask for each job, and there can be many of both.
func TestIdleRunnerRestsWhileManyJobsAreLeased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		jobs := &leased{active: make([]job.Job, 60)}
		stop := run(t, job.RunnerOptions{Jobs: jobs, Workers: verifying(&counter{}), Holder: "a"})
		testkit.Pass(10 * time.Minute)
		stop()
		if jobs.claims < 60*40 || jobs.claims > 60*90 {
			t.Errorf("%d claims in 10 minutes", jobs.claims)
		}
	})
}

// Periodic sweeps mostly wait for the stream. They have their own runner, so they
// do not delay builds. A cancelled one frees its slots for its successor.
func TestWaitingSweepsDelayNoOtherJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVirtualStore(t)
		for i := range 20 {
			newJob(t, s, fmt.Sprintf("a-sweep-%02d", i), job.Reconcile)
		}
		newJob(t, s, "b-build", job.Build)
		sweeping, building := &counter{ranges: 4, steps: 1, step: pause(time.Hour)}, &counter{ranges: 4, steps: 2}
		defer run(t, job.RunnerOptions{Jobs: s, Workers: map[job.Kind]job.Worker{job.Build: building}, Holder: "1"})()
		defer run(t, job.RunnerOptions{Jobs: s, Workers: map[job.Kind]job.Worker{job.Reconcile: sweeping}, Holder: "1"})()
		testkit.Pass(10 * time.Second)
		wantDone(t, s, "b-build", 8)
		if sweeping.busy != 2 || len(sweeping.steppedBy()) != 0 {
			t.Errorf("%d ranges are swept, and %d steps done", sweeping.busy, len(sweeping.steppedBy()))
		}
		sweeping.step = nil
		for i := range 19 {
			if _, err := s.Cancel(t.Context(), fmt.Sprintf("a-sweep-%02d", i), "another sweep of the projection has begun"); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Pass(time.Minute)
		wantDone(t, s, "a-sweep-19", 4)
		for i := range 19 {
			if j, err := s.Get(t.Context(), fmt.Sprintf("a-sweep-%02d", i)); err != nil || j.State != job.Cancelled || j.Counts["steps"] != 0 {
				t.Errorf("a cancelled sweep is %+v, %v", j, err)
			}
		}
	})
}

func TestRestrictedRunnerWorksOnItsJobOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVirtualStore(t)
		newJob(t, s, "a", job.Verify)
		newJob(t, s, "b", job.Verify)
		defer run(t, job.RunnerOptions{Jobs: s, Workers: verifying(&counter{ranges: 3, steps: 1}), Holder: "1", Only: "b"})()
		testkit.Pass(time.Minute)
		wantDone(t, s, "b", 3)
		if j, _ := s.Get(t.Context(), "a"); j.State != job.Planning {
			t.Errorf("the other job is %+v", j)
		}
	})
}

func TestCleanStopGivesRangesBackAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVirtualStore(t)
		newJob(t, s, "a", job.Verify)
		slow := &counter{ranges: 2, steps: 10, step: pause(10 * time.Second)}
		stop := run(t, job.RunnerOptions{Jobs: s, Workers: verifying(slow), Holder: "1"})
		testkit.Pass(35 * time.Second)
		stop()
		fast := &counter{ranges: 2, steps: 10}
		defer run(t, job.RunnerOptions{Jobs: s, Workers: verifying(fast), Holder: "2"})()
		testkit.Pass(3 * time.Second)
		wantDone(t, s, "a", 20)
		if n := len(fast.steppedBy()); n != 14 {
			t.Errorf("the successor made %d steps, want only the 14 that were not saved", n)
		}
	})
}

func TestCancelStopsRunningWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVirtualStore(t)
		newJob(t, s, "a", job.Verify)
		// A step takes longer than a heartbeat.
		w := &counter{ranges: 1, steps: 3, step: pause(25 * time.Second)}
		defer run(t, job.RunnerOptions{Jobs: s, Workers: verifying(w), Holder: "1"})()
		testkit.Pass(30 * time.Second)
		if _, err := s.Cancel(t.Context(), "a", ""); err != nil {
			t.Fatal(err)
		}
		testkit.Pass(11 * time.Second)
		if w.busy != 0 {
			t.Error("the work continues although the job is cancelled")
		}
	})
}

func TestErrorsAreRetriedWithBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVirtualStore(t)
		newJob(t, s, "a", job.Verify)
		var tries int
		w := &counter{ranges: 1, steps: 2}
		w.step = func(context.Context, job.Job, job.Range, int64) error {
			if tries++; tries <= 8 {
				return errors.New("no primary")
			}
			return nil
		}
		defer run(t, job.RunnerOptions{Jobs: s, Workers: verifying(w), Holder: "1", Parallel: 1})()
		testkit.Pass(30 * time.Second)
		if tries < 3 || tries > 7 {
			t.Errorf("%d tries in 30 s", tries)
		}
		if j, _ := s.Get(t.Context(), "a"); j.State != job.Running || j.Reason != "no primary" {
			t.Errorf("job is %+v", j)
		}
		testkit.Pass(10 * time.Minute)
		wantDone(t, s, "a", 2)
	})
}

func TestPermanentErrorFailsTheJobAndStopsItsOtherRanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVirtualStore(t)
		newJob(t, s, "a", job.Verify)
		w := &counter{ranges: 2, steps: 2}
		w.step = func(ctx context.Context, _ job.Job, r job.Range, _ int64) error {
			if r.Index == 1 {
				return job.Permanent(errors.New("the collection is gone"))
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}
		defer run(t, job.RunnerOptions{Jobs: s, Workers: verifying(w), Holder: "1"})()
		testkit.Pass(time.Minute)
		if j, _ := s.Get(t.Context(), "a"); j.State != job.Failed || j.Reason != "the collection is gone" {
			t.Errorf("job is %+v", j)
		}
		if w.busy != 0 {
			t.Error("the other range is still worked on")
		}
	})
}

func TestJobWithoutItsDefinitionIsLeftToOtherProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVirtualStore(t)
		newJob(t, s, "a", job.Verify)
		var tries int
		var here atomic.Bool
		cannot := &counter{ranges: 1, steps: 1, step: func(context.Context, job.Job, job.Range, int64) error {
			tries++
			return fmt.Errorf("no definition: %w", job.ErrNotHere)
		}}
		defer run(t, job.RunnerOptions{Jobs: s, Workers: verifying(cannot), Holder: "1", Here: func(context.Context, job.Job) bool { return here.Load() }})()
		testkit.Pass(10 * time.Minute)
		if j, err := s.Get(t.Context(), "a"); j.Epoch != 0 || err != nil {
			t.Errorf("the job was claimed: %+v, %v", j, err)
		}
		here.Store(true)
		testkit.Pass(time.Minute)
		if tries < 20 || tries > 60 {
			t.Errorf("tried %d times in a minute, want at most once a second", tries)
		}
		here.Store(false)
		defer run(t, job.RunnerOptions{Jobs: s, Workers: verifying(&counter{ranges: 1, steps: 1}), Holder: "2"})()
		testkit.Pass(10 * time.Second)
		wantDone(t, s, "a", 1)
	})
}

func TestWorkStopsBeforeTheLeaseExpiresIfTheStoreHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVirtualStore(t)
		newJob(t, s, "a", job.Verify)
		hung := time.Now().Add(5 * time.Second)
		hang := func(ctx context.Context, _ string) error {
			if time.Now().Before(hung) {
				return nil
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}
		s.jobs.Before, s.ranges.Before = hang, hang
		stopped := make(chan time.Duration, 1)
		w := &counter{ranges: 1, steps: 1, step: func(ctx context.Context, _ job.Job, _ job.Range, _ int64) error {
			<-ctx.Done()
			stopped <- time.Since(hung)
			return context.Cause(ctx)
		}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- job.NewRunner(job.RunnerOptions{Jobs: s, Workers: verifying(w), Holder: "1", Parallel: 1}).Run(ctx)
		}()
		if after := <-stopped; after <= 0 || after >= 30*time.Second {
			t.Errorf("the work stopped %v after the last answer, want less than the lease of 30 s", after)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestJobOnAnEmptyStoreIsDoneAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVirtualStore(t)
		newJob(t, s, "a", job.Verify)
		defer run(t, job.RunnerOptions{Jobs: s, Workers: verifying(&counter{}), Holder: "1"})()
		testkit.Pass(2 * time.Second)
		wantDone(t, s, "a", 0)
	})
}
