package job_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// process is a runner whose process can be killed or suspended. Its requests are then
// dropped or delayed.
type process struct {
	job.Jobs
	mu     sync.Mutex
	frozen chan struct{}
}

// freeze suspends the process. The returned function lets it continue.
func (p *process) freeze() (thaw func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := make(chan struct{})
	p.frozen = c
	return sync.OnceFunc(func() { close(c) })
}

func (p *process) wait() {
	p.mu.Lock()
	c := p.frozen
	p.mu.Unlock()
	if c != nil {
		<-c
	}
}

func (p *process) Save(ctx context.Context, c job.Claim, position bson.Raw, counts map[string]int64, lease time.Duration) error {
	p.wait()
	return p.Jobs.Save(context.WithoutCancel(ctx), c, position, counts, lease)
}

func (p *process) Keep(ctx context.Context, c job.Claim, lease time.Duration) error {
	p.wait()
	return p.Jobs.Keep(context.WithoutCancel(ctx), c, lease)
}

func (p *process) Finish(ctx context.Context, c job.Claim, counts map[string]int64) error {
	p.wait()
	return p.Jobs.Finish(context.WithoutCancel(ctx), c, counts)
}

func (p *process) Claim(ctx context.Context, j job.Job, holder string, lease time.Duration) (job.Claim, bool, error) {
	p.wait()
	return p.Jobs.Claim(ctx, j, holder, lease)
}

// saves are the ranges of jobs. It counts the saved positions of each job.
type saves struct {
	*mongotest.Collection
	mu     sync.Mutex
	counts map[string]int
}

func (s *saves) UpdateOne(ctx context.Context, filter, update any, opts ...options.Lister[options.UpdateOneOptions]) (*mongo.UpdateResult, error) {
	result, err := s.Collection.UpdateOne(ctx, filter, update, opts...)
	if err == nil && result.MatchedCount == 1 && strings.Contains(fmt.Sprint(update), "position") {
		id, _, _ := strings.Cut(filter.(bson.D)[0].Value.(string), "/")
		s.mu.Lock()
		s.counts[id]++
		s.mu.Unlock()
	}
	return result, err
}

// active is the number of jobs that have not ended.
func (s virtualStore) active(t *testing.T) int {
	t.Helper()
	active, err := s.Active(t.Context(), job.Query{Kinds: job.Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	return len(active)
}

// TestAnyTakeoverFinishesEachRangeOnce suspends, continues, kills and replaces processes,
// and pauses and resumes jobs, at random. Some processes end what their predecessors hold, also
// that of one which is not dead. Each range must count each of its steps exactly once, and the
// store must reject every save of a process that has lost its range.
func TestAnyTakeoverFinishesEachRangeOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		const steps, ranges, jobs = 4, 3, 2
		type action struct {
			what string
			who  int
			wait time.Duration
		}
		actions := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) action {
			return action{
				rapid.SampledFrom([]string{"freeze", "thaw", "restart", "succeed", "mistake", "pause", "resume"}).Draw(rt, "what"),
				rapid.IntRange(0, 1).Draw(rt, "who"),
				time.Duration(rapid.IntRange(0, 70).Draw(rt, "wait")) * time.Second,
			}
		}), 0, 25).Draw(rt, "actions")
		pace := time.Duration(rapid.IntRange(1, 40).Draw(rt, "pace")) * time.Second
		synctest.Test(t, func(t *testing.T) {
			s := newVirtualStore(t)
			saved := &saves{Collection: s.ranges, counts: make(map[string]int)}
			s.Store = job.Open(s.jobs, saved, job.Options{})
			for i := range jobs {
				newJob(t, s, fmt.Sprint(i), job.Verify)
			}
			w := &counter{ranges: ranges, steps: steps, step: pause(pace)}
			processes, holders := make([]*process, 2), make([]string, 2)
			var stops, thaws []func()
			start := func(i int) {
				processes[i], holders[i] = &process{Jobs: s}, fmt.Sprint(i, "_", len(stops))
				stops = append(stops, run(t, job.RunnerOptions{Jobs: processes[i], Workers: verifying(w), Holder: holders[i], Parallel: 2, Poll: 10 * time.Second}))
			}
			succeed := func(holder string) {
				if _, err := s.Abandon(t.Context(), []string{"unknown", holder}); err != nil {
					t.Error(err)
				}
			}
			start(0)
			start(1)
			last := map[int]func(){}
			for _, a := range actions {
				switch a.what {
				case "freeze":
					last[a.who] = processes[a.who].freeze()
					thaws = append(thaws, last[a.who])
				case "thaw":
					if thaw := last[a.who]; thaw != nil {
						thaw()
					}
				case "restart", "succeed":
					// The old process never continues, as if it were killed. Its last
					// requests arrive at the very end.
					thaws = append(thaws, processes[a.who].freeze())
					if a.what == "succeed" {
						succeed(holders[a.who])
					}
					start(a.who)
				case "mistake":
					succeed(holders[a.who])
				case "pause":
					_, _ = s.Pause(t.Context(), fmt.Sprint(a.who), "")
				case "resume":
					_, _ = s.Resume(t.Context(), fmt.Sprint(a.who))
				}
				testkit.Pass(a.wait)
			}
			for _, thaw := range thaws {
				thaw()
			}
			for i := range jobs {
				_, _ = s.Resume(t.Context(), fmt.Sprint(i))
			}
			for left := time.Hour; left > 0 && s.active(t) > 0; left -= time.Minute {
				testkit.Pass(time.Minute)
			}
			for _, stop := range stops {
				stop()
			}
			for i := range jobs {
				wantDone(t, s, fmt.Sprint(i), ranges*steps)
				if n := saved.counts[fmt.Sprint(i)]; n != ranges*steps {
					t.Errorf("%d saves counted, want each of the %d once", n, ranges*steps)
				}
			}
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// A range of a dead process is open again at once, and later after each further death without
// progress. So is the planning of a job. Other ranges and running jobs stay as they are.
func TestClaimsOfDeadProcessesAreReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newVirtualStore(t)
		s.planned(t, job.Job{ID: "a", Kind: job.Verify, Projection: "users"}, 2)
		newJob(t, s, "b", job.Verify)
		living := s.claim(t, "a", "living")
		taken := func(id string) time.Duration {
			t.Helper()
			for begun := time.Now(); ; testkit.Pass(100 * time.Millisecond) {
				j, err := s.Get(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				_, ok, err := s.Claim(t.Context(), j, "dead", time.Minute)
				if err != nil || time.Since(begun) > time.Minute {
					t.Fatalf("no claim of %s after %v: %v", id, time.Since(begun), err)
				}
				if ok {
					return time.Since(begun)
				}
			}
		}
		for _, id := range []string{"a", "b"} {
			taken(id)
			for deaths, limit := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
				if returned, err := s.Abandon(t.Context(), []string{"dead"}); err != nil || returned == 0 {
					t.Fatalf("%d claims returned: %v", returned, err)
				}
				if wait := taken(id); wait < limit/2 || wait > limit+100*time.Millisecond {
					t.Errorf("%s is claimed %v after death %d, want at most %v", id, wait, deaths+1, limit)
				}
			}
		}
		if err := s.Keep(t.Context(), living, time.Minute); err != nil {
			t.Errorf("a living process has lost its range: %v", err)
		}
	})
}
