package leader_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/penstock-cdc/penstock/publisher/internal/leader"
)

// candidates is how many processes take part in an episode.
const candidates = 3

// episode is one election among candidates, in virtual time, with one fault.
type episode struct {
	config    leader.Config
	rng       *rand.Rand
	store     *lockStore
	processes []*process
	terms     chan int

	mu       sync.Mutex
	timeline []span
}

// span is the time during which a process's work ran.
type span struct {
	process    int
	begin, end time.Time // end is zero while it runs
}

// process is one candidate: a publisher that is reduced to the time span of its work.
type process struct {
	identity string

	link *link
	stop context.CancelFunc
	done chan error

	mu   sync.Mutex
	dead bool
}

// campaign takes part in an election as leader.Elector.Run does.
type campaign func(ctx context.Context, lock resourcelock.Interface, config leader.Config, work leader.Work) error

func penstock(ctx context.Context, lock resourcelock.Interface, config leader.Config, work leader.Work) error {
	e, err := leader.New(lock, config, leader.Options{})
	if err != nil {
		return err
	}
	return e.Run(ctx, work)
}

// plainClientGo does what the example of client-go does: the work ends with the context
// of OnStartedLeading.
func plainClientGo(ctx context.Context, lock resourcelock.Interface, config leader.Config, work leader.Work) error {
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   config.LeaseDuration,
		RenewDeadline:   config.RenewDeadline,
		RetryPeriod:     config.RetryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { _ = work(ctx, nil) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	e.Run(ctx)
	return nil
}

func newEpisode(seed uint64, config leader.Config) *episode {
	return &episode{
		config: config,
		rng:    rand.New(rand.NewPCG(seed, 0)),
		store:  &lockStore{},
		terms:  make(chan int, 1000),
	}
}

// upTo returns a random duration of at most longest.
func (e *episode) upTo(longest time.Duration) time.Duration {
	return time.Duration(e.rng.Int64N(int64(longest) + 1))
}

// start starts a new candidate with an identity of its own, or with that of a dead process.
func (e *episode) start(run campaign, dead ...int) {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	number := len(e.processes)
	p := &process{identity: leader.NewIdentity("publisher"), link: newLink(e.rng.Uint64(), 500*time.Millisecond), stop: cancel, done: make(chan error, 1)}
	e.processes = append(e.processes, p)
	for _, i := range dead {
		p.identity = e.processes[i].identity
	}
	lock := &memoryLock{store: e.store, link: p.link, identity: p.identity}
	drain := e.upTo(8 * time.Second)
	// Just within what is allowed.
	abort := e.upTo(e.config.AbortTimeout() - time.Millisecond)
	work := func(ctx context.Context, term *leader.Term) error {
		e.begin(number, p)
		defer e.end(number)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), leader.ErrStopping) {
			if term != nil {
				sleep(abort)
			}
			return nil
		}
		draining := time.NewTimer(drain)
		defer draining.Stop()
		select {
		case <-draining.C:
		case <-term.Held().Done():
			sleep(abort)
		}
		return nil
	}
	go func() { p.done <- run(ctx, lock, e.config, work) }()
}

func (e *episode) begin(number int, p *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return
	}
	e.mu.Lock()
	e.timeline = append(e.timeline, span{process: number, begin: time.Now()})
	e.mu.Unlock()
	e.terms <- number
}

func (e *episode) end(number int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := len(e.timeline) - 1; i >= 0; i-- {
		if s := &e.timeline[i]; s.process == number && s.end.IsZero() {
			s.end = time.Now()
			return
		}
	}
}

// crash ends a process like SIGKILL: its work ends at once, and nothing is released.
func (e *episode) crash(number int) {
	p := e.processes[number]
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
	p.link.set(silent)
	e.end(number)
	p.stop()
}

// await returns the process whose term begins next, or false after limit.
func (e *episode) await(limit time.Duration) (int, bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case p := <-e.terms:
		return p, true
	case <-timer.C:
		return 0, false
	}
}

// finish stops all processes and returns what their Run returned.
func (e *episode) finish() error {
	var errs []error
	for _, p := range e.processes {
		p.stop()
	}
	for _, p := range e.processes {
		errs = append(errs, <-p.done)
	}
	return errors.Join(errs...)
}

// overlap returns the longest time for which two processes worked at the same time. If
// there was always a gap between them, it returns the shortest gap as a negative value.
func (e *episode) overlap() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	worst := time.Duration(-1 << 62)
	end := func(s span) time.Time {
		if s.end.IsZero() {
			return time.Now()
		}
		return s.end
	}
	for i, a := range e.timeline {
		for _, b := range e.timeline[i+1:] {
			if a.process == b.process {
				continue
			}
			last := end(a)
			if end(b).Before(last) {
				last = end(b)
			}
			worst = max(worst, last.Sub(b.begin))
		}
	}
	return worst
}

// outcome is the result of an episode.
type outcome struct {
	overlap  time.Duration
	takeover time.Duration // zero if nobody took over
	err      error
}

// scenario plays one episode in virtual time, with the process that leads at first.
type scenario func(e *episode, first int) outcome

func runEpisode(t *testing.T, seed uint64, config leader.Config, run campaign, play scenario) (o outcome) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		e := newEpisode(seed, config)
		for range candidates {
			e.start(run)
			sleep(e.upTo(time.Second))
		}
		if first, err := settle(e); err != nil {
			o.err = err
		} else {
			o = play(e, first)
		}
		if err := e.finish(); err != nil && o.err == nil {
			o.err = err
		}
		o.overlap = e.overlap()
	})
	return o
}

// tally sums up the episodes of a scenario.
type tally struct {
	episodes, takeovers, overlaps int
	shortest, longest, sum        time.Duration
	worst                         time.Duration
}

func (y *tally) add(o outcome) {
	y.episodes++
	if y.episodes == 1 || o.overlap > y.worst {
		y.worst = o.overlap
	}
	if o.overlap > 0 {
		y.overlaps++
	}
	if o.takeover == 0 {
		return
	}
	if y.takeovers == 0 || o.takeover < y.shortest {
		y.shortest = o.takeover
	}
	y.takeovers++
	y.longest = max(y.longest, o.takeover)
	y.sum += o.takeover
}

func (y *tally) String() string {
	separation := fmt.Sprintf("longest overlap of two terms %.1f s", y.worst.Seconds())
	switch {
	case y.worst < -24*time.Hour:
		separation = "there was one term only"
	case y.worst <= 0:
		separation = fmt.Sprintf("longest overlap of two terms none (shortest gap %.2f s)", -y.worst.Seconds())
	}
	if y.takeovers == 0 {
		return fmt.Sprintf("%d episodes, overlaps in %d, %s", y.episodes, y.overlaps, separation)
	}
	return fmt.Sprintf("%d episodes, %d takeovers in min/mean/max %.1f/%.1f/%.1f s, overlaps in %d, %s",
		y.episodes, y.takeovers, y.shortest.Seconds(), (y.sum / time.Duration(y.takeovers)).Seconds(),
		y.longest.Seconds(), y.overlaps, separation)
}

// TestTermsNeverOverlapInAnySimulatedFault measures failover in virtual time. Each
// episode has an election among three candidates and then one fault. No two terms may
// ever overlap.
func TestTermsNeverOverlapInAnySimulatedFault(t *testing.T) {
	t.Parallel()
	standard := leader.DefaultConfig()
	brisk := leader.NewConfig(6*time.Second, 4*time.Second, time.Second, 20*time.Second)
	hectic := leader.NewConfig(3*time.Second, 2*time.Second, 500*time.Millisecond, 20*time.Second)
	for _, tc := range []struct {
		name     string
		config   leader.Config
		episodes int
		play     scenario
		takeover time.Duration // the longest that is allowed; zero: none is required
	}{
		{"crash 15/10/2", standard, 1000, crashes, 19 * time.Second},
		{"crash and restart 15/10/2", standard, 1000, restarts, 4 * time.Second},
		{"graceful handover 15/10/2", standard, 1000, handovers, 4 * time.Second},
		{"loss of contact 15/10/2", standard, 1000, losses, 0},
		{"loss of contact, standbys too 15/10/2", standard, 1000, commonLosses, 0},
		{"links at random 15/10/2", standard, 200, chaos, 0},
		{"lock deleted 15/10/2", standard, 200, deletions, 0},
		{"lock deleted, loss of contact 15/10/2", standard, 1000, deletionWithLosses, 0},
		{"crash 6/4/1", brisk, 1000, crashes, 9 * time.Second},
		{"graceful handover 6/4/1", brisk, 1000, handovers, 3 * time.Second},
		{"loss of contact 6/4/1", brisk, 1000, losses, 0},
		// Renewals are less than a second apart, so the times in a Lease do not
		// distinguish them.
		{"loss of contact 3/2/0.5", hectic, 1000, losses, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			episodes := tc.episodes
			if raceDetector || testing.Short() {
				// The race detector costs ten times the work. The races are those of a few
				// episodes; the figures are taken without it.
				episodes /= 10
			}
			var sum tally
			for seed := range uint64(episodes) {
				o := runEpisode(t, seed, tc.config, penstock, tc.play)
				if o.err != nil {
					t.Fatalf("episode %d: %v", seed, o.err)
				}
				if o.overlap > 0 {
					t.Errorf("episode %d: two terms overlapped for %v", seed, o.overlap)
				}
				if tc.takeover > 0 && o.takeover > tc.takeover {
					t.Errorf("episode %d: takeover took %v, want at most %v", seed, o.takeover, tc.takeover)
				}
				sum.add(o)
			}
			t.Log(&sum)
		})
	}
}

// TestTermsOverlapWithPlainClientGo shows that the measurement above can detect an
// overlap: client-go alone, with ReleaseOnCancel, has overlaps.
func TestTermsOverlapWithPlainClientGo(t *testing.T) {
	t.Parallel()
	var sum tally
	for seed := range uint64(100) {
		sum.add(runEpisode(t, seed, leader.DefaultConfig(), plainClientGo, losses))
	}
	if sum.overlaps == 0 {
		t.Error("client-go alone never overlapped: the simulation is blind")
	}
	t.Log(&sum)
}
