package leader_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/penstock-cdc/penstock/publisher/internal/leader"
)

// candidate is an elector on a memoryLock, running.
type candidate struct {
	*leader.Elector
	identity string
	link     *link
	stop     context.CancelFunc
	result   chan error
	registry *prometheus.Registry
}

// start runs an elector on store with the default configuration.
func start(t *testing.T, store *lockStore, work leader.Work) *candidate {
	t.Helper()
	c := &candidate{
		identity: leader.NewIdentity("publisher-0"),
		link:     newLink(1, 0),
		result:   make(chan error, 1),
		registry: prometheus.NewRegistry(),
	}
	lock := &memoryLock{store: store, link: c.link, identity: c.identity}
	e, err := leader.New(lock, leader.DefaultConfig(), leader.Options{Registerer: c.registry})
	if err != nil {
		t.Fatal(err)
	}
	c.Elector = e
	ctx, cancel := context.WithCancel(quiet())
	c.stop = cancel
	go func() { c.result <- e.Run(ctx, work) }()
	return c
}

// quiet is a context in which client-go logs nothing.
func quiet() context.Context { return klog.NewContext(context.Background(), logr.Discard()) }

// untilDone is work that does nothing and stops at once.
func untilDone(ctx context.Context, _ *leader.Term) error {
	<-ctx.Done()
	return nil
}

// finish stops the candidate and waits for it.
func (c *candidate) finish(t *testing.T) {
	t.Helper()
	c.stop()
	if err := <-c.result; err != nil {
		t.Errorf("Run returned %v", err)
	}
}

// leads tells, by its value, whether the candidate's work runs.
func (c *candidate) leads(t *testing.T) bool {
	t.Helper()
	return c.metric(t, "penstock_publisher_leader", "") == 1
}

// ended is how many terms of the candidate ended for that reason.
func (c *candidate) ended(t *testing.T, reason string) int {
	t.Helper()
	return int(c.metric(t, "penstock_publisher_terms_total", reason))
}

func (c *candidate) metric(t *testing.T, name, label string) float64 {
	t.Helper()
	families, err := c.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s %s", name, label)
	return 0
}

func TestStopDrainsFirstAndReleasesSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const drain = 12 * time.Second
		var steps []string
		store := &lockStore{}
		c := start(t, store, func(ctx context.Context, term *leader.Term) error {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), leader.ErrStopping) {
				t.Errorf("work was told %v, want ErrStopping", context.Cause(ctx))
			}
			steps = append(steps, "drain began")
			select {
			case <-time.After(drain):
			case <-term.Held().Done():
				t.Errorf("lease was lost during the drain: %v", context.Cause(term.Held()))
			}
			steps = append(steps, "drain ended")
			return nil
		})
		pass(time.Minute)
		if !c.leads(t) {
			t.Fatal("candidate does not lead")
		}
		begun, renewals := time.Now(), 0
		store.watch(func(record resourcelock.LeaderElectionRecord) {
			if record.HolderIdentity == "" {
				steps = append(steps, "released")
			} else {
				renewals++
			}
		})
		c.finish(t)
		if want := []string{"drain began", "drain ended", "released"}; !slices.Equal(steps, want) {
			t.Errorf("steps are %q, want %q", steps, want)
		}
		if renewals < 5 {
			t.Errorf("lease was renewed %d times in a drain of %v, want at least 5", renewals, drain)
		}
		if took := time.Since(begun); took != drain {
			t.Errorf("stop took %v, want %v", took, drain)
		}
		if c.leads(t) || c.ended(t, "stopping") != 1 {
			t.Error("metrics do not tell of the end of the term")
		}
	})
}

func TestStopOfACandidate(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]contact{"connected": connected, "silent store": silent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &lockStore{}
				first := start(t, store, untilDone)
				pass(10 * time.Second)
				second := start(t, store, func(context.Context, *leader.Term) error {
					t.Error("two processes lead")
					return nil
				})
				pass(10 * time.Second)
				second.link.set(state)
				pass(5 * time.Second)
				begun := time.Now()
				second.finish(t)
				if took := time.Since(begun); took > 0 {
					t.Errorf("stop took %v, want none", took)
				}
				if second.Leader() != first.identity {
					t.Errorf("observed leader is %q, want %q", second.Leader(), first.identity)
				}
				first.finish(t)
			})
		})
	}
}

// A stop must not hang on a lock store that cannot be reached.
func TestStopWithoutContactToTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &lockStore{}
		c := start(t, store, untilDone)
		pass(20 * time.Second)
		c.link.set(silent)
		begun := time.Now()
		c.finish(t)
		if took := time.Since(begun); took > leader.DefaultConfig().RequestTimeout {
			t.Errorf("stop took %v, want at most one request timeout", took)
		}
		if store.holder() != c.identity {
			t.Errorf("lease is held by %q, want it left to expire", store.holder())
		}
	})
}

func TestStuckWorkerEndsRunWithoutARelease(t *testing.T) {
	t.Parallel()
	config := leader.DefaultConfig()
	for name, tc := range map[string]struct {
		cause  func(c *candidate)
		within time.Duration
	}{
		"after a stop": {
			cause:  func(c *candidate) { c.stop() },
			within: config.StopTimeout,
		},
		"after a loss": {
			// Before any other process can lead: counted from the last renewal, which is
			// up to RetryPeriod ago.
			cause:  func(c *candidate) { c.link.set(silent) },
			within: config.LeaseDuration,
		},
		"in a drain that loses the lease": {
			cause:  func(c *candidate) { c.link.set(silent); c.stop() },
			within: config.LeaseDuration,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, unstick := &lockStore{}, make(chan struct{})
				c := start(t, store, func(context.Context, *leader.Term) error {
					<-unstick
					return nil
				})
				pass(20 * time.Second)
				store.watch(func(record resourcelock.LeaderElectionRecord) {
					if record.HolderIdentity == "" {
						t.Error("lease was released while the work ran")
					}
				})
				begun := time.Now()
				tc.cause(c)
				if err := <-c.result; !errors.Is(err, leader.ErrWorkerStuck) {
					t.Errorf("Run returned %v, want ErrWorkerStuck", err)
				}
				if took := time.Since(begun); took > tc.within {
					t.Errorf("Run returned after %v, want at most %v", took, tc.within)
				}
				if c.ended(t, "worker_stuck") != 1 {
					t.Error("metric does not tell of it")
				}
				c.link.set(connected)
				pass(config.RenewDeadline + config.RetryPeriod)
				close(unstick)
			})
		})
	}
}

func TestTrustExpiresWhileTheElectorHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := leader.DefaultConfig()
		var ended time.Time
		store := &lockStore{}
		c := start(t, store, func(ctx context.Context, term *leader.Term) error {
			<-ctx.Done()
			if ended.IsZero() {
				ended = time.Now()
				if !errors.Is(context.Cause(ctx), leader.ErrTrustExpired) {
					t.Errorf("work was told %v, want ErrTrustExpired", context.Cause(ctx))
				}
				if term.Held().Err() == nil {
					t.Error("lease counts as held after its trust expired")
				}
			}
			return nil
		})
		var renewed time.Time
		store.watch(func(resourcelock.LeaderElectionRecord) { renewed = time.Now() })
		pass(time.Minute)
		last := renewed
		c.link.set(silent)
		pass(time.Minute)
		if took, want := ended.Sub(last), config.RenewDeadline+config.Margin; took != want {
			t.Errorf("term ended %v after the last renewal, want %v", took, want)
		}
		if c.ended(t, "trust_expired") != 1 {
			t.Error("metric does not tell of it")
		}
		// The contact returns, and with it the leadership, by a new elector.
		c.link.set(connected)
		pass(time.Minute)
		if !c.leads(t) {
			t.Error("process does not lead again")
		}
		c.finish(t)
	})
}

// A renewal is trusted from the start of its request: the store may have had it at
// any time since.
func TestTrustCountsFromTheStartOfTheRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := leader.DefaultConfig()
		const slow = 2500 * time.Millisecond
		var ended time.Time
		store := &lockStore{}
		link := newLink(1, 0)
		lock := &slowLock{memoryLock: memoryLock{store: store, link: link, identity: "a"}, answer: slow}
		e, err := leader.New(lock, config, leader.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(quiet())
		result := make(chan error, 1)
		go func() {
			result <- e.Run(ctx, func(ctx context.Context, _ *leader.Term) error {
				<-ctx.Done()
				if ended.IsZero() {
					ended = time.Now()
				}
				return nil
			})
		}()
		var renewed time.Time
		store.watch(func(resourcelock.LeaderElectionRecord) { renewed = time.Now() })
		pass(time.Minute)
		for time.Since(renewed) != slow { // the answer to the last renewal has just arrived
			pass(time.Millisecond)
		}
		last := renewed
		link.set(silent)
		pass(time.Minute)
		if took, want := ended.Sub(last), config.RenewDeadline+config.Margin; took != want {
			t.Errorf("term ended %v after the last renewal reached the store, want %v", took, want)
		}
		cancel()
		if err := <-result; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

// slowLock answers renewals late.
type slowLock struct {
	memoryLock
	answer time.Duration
}

func (l *slowLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.memoryLock.Update(ctx, record)
	if err == nil {
		sleep(l.answer)
	}
	return err
}

// client-go alone would go on for RenewDeadline.
func TestAnotherHolderEndsTheTermAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cause error
		store := &lockStore{}
		c := start(t, store, func(ctx context.Context, _ *leader.Term) error {
			<-ctx.Done()
			if cause == nil {
				cause = context.Cause(ctx)
			}
			return nil
		})
		pass(time.Minute)
		// As by hand, with kubectl edit.
		record, version, _ := store.read()
		record.HolderIdentity = "somebody"
		if _, err := store.write(record, version); err != nil {
			t.Fatal(err)
		}
		pass(leader.DefaultConfig().RetryPeriod + time.Millisecond)
		if !errors.Is(cause, leader.ErrLeaseLost) {
			t.Errorf("work was told %v, want ErrLeaseLost", cause)
		}
		if c.leads(t) || c.ended(t, "lease_lost") != 1 {
			t.Error("metrics do not tell of it")
		}
		if store.holder() != "somebody" {
			t.Errorf("lease is held by %q: a loser must not write to it", store.holder())
		}
		c.finish(t)
	})
}

func TestReleaseIsRetriedOnConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &lockStore{conflicts: 3}
		c := start(t, store, untilDone)
		pass(time.Minute)
		c.finish(t)
		if store.holder() != "" {
			t.Errorf("lease is held by %q, want nobody", store.holder())
		}
	})
}

func TestFailedWorkGivesTheLeaseToAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &lockStore{}
		var failures []time.Time
		failing := start(t, store, func(ctx context.Context, _ *leader.Term) error {
			failures = append(failures, time.Now())
			if len(failures) == 3 {
				return nil // as bad: work blocks for the whole term
			}
			if len(failures) > 3 {
				return untilDone(ctx, nil)
			}
			return errors.New("stream is broken")
		})
		// Alone, it tries again, ever more seldom.
		pass(2 * time.Minute)
		if len(failures) < 4 {
			t.Fatalf("work was tried %d times, want 4", len(failures))
		}
		for i, low := range []time.Duration{6 * time.Second, 12 * time.Second, 24 * time.Second} {
			if wait := failures[i+1].Sub(failures[i]); wait < low || wait > low*3/2+5*time.Second {
				t.Errorf("backoff %d is %v, want at least %v and at most half as much again", i, wait, low)
			}
		}
		if failing.ended(t, "work_failed") != 3 {
			t.Errorf("%d terms count as failed, want 3", failing.ended(t, "work_failed"))
		}
		failing.finish(t)

		// With a standby, that one leads next.
		failing = start(t, store, func(context.Context, *leader.Term) error { return errors.New("stream is broken") })
		pass(time.Second)
		standby := start(t, store, untilDone)
		pass(90 * time.Second)
		if !standby.leads(t) || store.holder() != standby.identity {
			t.Error("standby does not lead after the leader's work failed")
		}
		for _, c := range []*candidate{failing, standby} {
			c.finish(t)
		}
	})
}

// A restarted process has the same name and must wait all the same: with one
// identity for both, it would lead at once.
func TestProcessesOfOnePodAreTwoCandidates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &lockStore{}
		first := start(t, store, untilDone)
		pass(20 * time.Second)
		second := start(t, store, untilDone)
		pass(time.Minute)
		if !first.leads(t) || second.leads(t) {
			t.Errorf("leading: first %v, second %v, want the first alone", first.leads(t), second.leads(t))
		}
		for _, c := range []*candidate{second, first} {
			c.finish(t)
		}
	})
}

func TestAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, err := leader.NewAlone("me", leader.DefaultConfig(), leader.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(quiet())
		terms := 0
		result := make(chan error, 1)
		go func() {
			result <- e.Run(ctx, func(ctx context.Context, term *leader.Term) error {
				if terms++; terms == 1 {
					return errors.New("broken")
				}
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), leader.ErrStopping) || term.Held().Err() != nil {
					t.Errorf("work was told %v, held %v", context.Cause(ctx), term.Held().Err())
				}
				return nil
			})
		}()
		pass(time.Hour)
		if terms != 2 || e.Leader() != "me" || e.Alive() != nil {
			t.Errorf("terms %d, leader %q, alive %v", terms, e.Leader(), e.Alive())
		}
		cancel()
		if err := <-result; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

// deadlocked never answers a renewal, and heeds no context.
type deadlocked struct {
	memoryLock
	on      chan struct{} // closed when renewals begin to hang
	release chan struct{}
}

func (l *deadlocked) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	select {
	case <-l.on:
		<-l.release
		return errRefused
	default:
		return l.memoryLock.Update(ctx, record)
	}
}

func TestDeadlockedElectorIsNotAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lock := &deadlocked{
			memoryLock: memoryLock{store: &lockStore{}, link: newLink(1, 0), identity: "a"},
			on:         make(chan struct{}),
			release:    make(chan struct{}),
		}
		beats := 0
		e, err := leader.New(lock, leader.DefaultConfig(), leader.Options{Heartbeat: func() { beats++ }})
		if err != nil {
			t.Fatal(err)
		}
		result := make(chan error, 1)
		go func() { result <- e.Run(quiet(), untilDone) }()
		pass(time.Minute)
		if beats < 25 {
			t.Errorf("heart beat %d times in a minute, want one for every request", beats)
		}
		close(lock.on)
		// The term ends by trust, and then the elector is waited for in vain.
		if err := <-result; !errors.Is(err, leader.ErrElectorStuck) {
			t.Errorf("Run returned %v, want ErrElectorStuck", err)
		}
		if err := e.Alive(); err != nil {
			t.Errorf("alive too early: %v", err)
		}
		pass(time.Minute)
		if e.Alive() == nil {
			t.Error("a deadlocked elector counts as alive")
		}
		close(lock.release)
	})
}

func TestLivenessAfterALostRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &lockStore{}, untilDone)
		pass(time.Minute)
		c.link.set(silent)
		for range 300 {
			pass(time.Second)
			if err := c.Alive(); err != nil {
				t.Fatalf("process without contact is not alive: %v", err)
			}
		}
		c.finish(t)
	})
}

func TestMetricNames(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	if _, err := leader.NewAlone("me", leader.DefaultConfig(), leader.Options{Registerer: registry}); err != nil {
		t.Fatal(err)
	}
	if n, err := testutil.GatherAndCount(registry, "penstock_publisher_leader", "penstock_publisher_terms_total"); n != 6 || err != nil {
		t.Errorf("%d series, %v, want the gauge and a counter for each of 5 reasons", n, err)
	}
	if problems, err := testutil.GatherAndLint(registry); len(problems) > 0 || err != nil {
		t.Errorf("metrics break the rules: %v, %v", problems, err)
	}
}
