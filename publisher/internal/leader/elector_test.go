package leader_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/leader"
)

// candidate is a running elector on a memoryLock.
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
		link:     new(link),
		result:   make(chan error, 1),
		registry: prometheus.NewRegistry(),
	}
	lock := &memoryLock{store: store, link: c.link, identity: c.identity}
	e := leader.New(lock, leader.DefaultConfig(), leader.Options{Registerer: c.registry})
	c.Elector = e
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	go func() { c.result <- e.Run(ctx, work) }()
	return c
}

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

// leads reports, by the metric, whether the candidate's work runs.
func (c *candidate) leads(t *testing.T) bool {
	t.Helper()
	return testkit.Metric(t, c.registry, "penstock_publisher_leader") == 1
}

// ended returns how many terms of the candidate ended for this reason.
func (c *candidate) ended(t *testing.T, reason string) int {
	t.Helper()
	return int(testkit.Metric(t, c.registry, "penstock_publisher_terms_total", reason))
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
				t.Errorf("the work's context ended with %v, want ErrStopping", context.Cause(ctx))
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
		testkit.Pass(time.Minute)
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
			t.Error("the metrics do not show the end of the term")
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
				testkit.Pass(10 * time.Second)
				second := start(t, store, func(context.Context, *leader.Term) error {
					t.Error("two processes lead")
					return nil
				})
				testkit.Pass(10 * time.Second)
				second.link.set(state)
				testkit.Pass(5 * time.Second)
				begun := time.Now()
				second.finish(t)
				if took := time.Since(begun); took > 0 {
					t.Errorf("stop took %v, want none", took)
				}
				first.finish(t)
			})
		})
	}
}

// A stop must not wait for a lock store that cannot be reached.
func TestStopWithoutContactToTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &lockStore{}
		c := start(t, store, untilDone)
		testkit.Pass(20 * time.Second)
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

// The lock store refuses the first releases as conflicts.
func TestReleaseIsRetriedOnConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &lockStore{conflicts: 3}
		c := start(t, store, untilDone)
		testkit.Pass(time.Minute)
		c.finish(t)
		if store.holder() != "" {
			t.Errorf("the lease is held by %q, want no holder", store.holder())
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
		// Without a standby, it retries with a growing pause.
		testkit.Pass(2 * time.Minute)
		if len(failures) < 4 {
			t.Fatalf("work was tried %d times, want 4", len(failures))
		}
		for i, low := range []time.Duration{6 * time.Second, 12 * time.Second, 24 * time.Second} {
			if wait := failures[i+1].Sub(failures[i]); wait < low || wait > 2*low+5*time.Second {
				t.Errorf("backoff %d is %v, want at least %v and at most twice as much", i, wait, low)
			}
		}
		if failing.ended(t, "work_failed") != 3 {
			t.Errorf("%d terms count as failed, want 3", failing.ended(t, "work_failed"))
		}
		failing.finish(t)

		// With a standby, the standby leads next.
		failing = start(t, store, func(context.Context, *leader.Term) error { return errors.New("stream is broken") })
		testkit.Pass(time.Second)
		standby := start(t, store, untilDone)
		testkit.Pass(90 * time.Second)
		if !standby.leads(t) || store.holder() != standby.identity {
			t.Error("standby does not lead after the leader's work failed")
		}
		for _, c := range []*candidate{failing, standby} {
			c.finish(t)
		}
	})
}

func TestMetricNames(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	leader.New(&memoryLock{}, leader.DefaultConfig(), leader.Options{Registerer: registry})
	if n, err := testutil.GatherAndCount(registry, "penstock_publisher_leader", "penstock_publisher_terms_total"); n != 6 || err != nil {
		t.Errorf("%d series, %v, want the gauge and a counter for each of 5 reasons", n, err)
	}
}
