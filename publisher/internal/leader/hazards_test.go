package leader_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/leader"
)

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
			// The bound is the time when another process can lead: it counts from the
			// last renewal, which is up to RetryPeriod ago.
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
				testkit.Pass(20 * time.Second)
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
					t.Error("the metric does not count the term's end with this reason")
				}
				c.link.set(connected)
				testkit.Pass(config.RenewDeadline + config.RetryPeriod)
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
					t.Errorf("the work's context ended with %v, want ErrTrustExpired", context.Cause(ctx))
				}
				if term.Held().Err() == nil {
					t.Error("lease counts as held after its trust expired")
				}
			}
			return nil
		})
		var renewed time.Time
		store.watch(func(resourcelock.LeaderElectionRecord) { renewed = time.Now() })
		testkit.Pass(time.Minute)
		last := renewed
		c.link.set(silent)
		testkit.Pass(time.Minute)
		if took, want := ended.Sub(last), config.RenewDeadline+config.Margin; took != want {
			t.Errorf("term ended %v after the last renewal, want %v", took, want)
		}
		if c.ended(t, "trust_expired") != 1 {
			t.Error("the metric does not count the term's end with this reason")
		}
		// When the connection returns, a new elector can lead again.
		c.link.set(connected)
		testkit.Pass(time.Minute)
		if !c.leads(t) {
			t.Error("process does not lead again")
		}
		c.finish(t)
	})
}

func TestTrustAfterASecondRenewalEndsBeforeCandidatesTakeOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := leader.DefaultConfig()
		store := &lockStore{}
		a := start(t, store, untilDone)
		testkit.Pass(time.Minute)
		b := start(t, store, untilDone)
		testkit.Pass(time.Minute)
		renewals := 0
		var last, taken time.Time
		store.watch(func(record resourcelock.LeaderElectionRecord) {
			if record.HolderIdentity == b.identity {
				taken = time.Now()
				store.onWrite = nil
				return
			}
			last = time.Now()
			switch renewals++; renewals {
			case 1: // The answer is lost, and the elector reads and writes again.
				a.link.set(deaf)
				time.AfterFunc(config.RequestTimeout-time.Millisecond, func() { a.link.set(connected) })
			case 2: // The last renewal that the other candidate sees.
				time.AfterFunc(time.Millisecond, func() { a.link.set(silent) })
			default:
				t.Errorf("the leader renewed %d times although its requests get no answer", renewals)
			}
		})
		testkit.Pass(time.Minute)
		if renewals != 2 {
			t.Fatalf("leader renewed %d times, want 2", renewals)
		}
		if waited := taken.Sub(last); taken.IsZero() || waited < config.LeaseDuration {
			t.Errorf("lease was taken %v after the last renewal, want %v at the earliest", waited, config.LeaseDuration)
		}
		a.finish(t)
		b.finish(t)
	})
}

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
		testkit.Pass(time.Minute)
		// An operator changes the holder by kubectl edit.
		record, version, _ := store.read()
		record.HolderIdentity = "somebody"
		if _, err := store.write(record, version); err != nil {
			t.Fatal(err)
		}
		testkit.Pass(leader.DefaultConfig().RetryPeriod + time.Millisecond)
		if !errors.Is(cause, leader.ErrLeaseLost) {
			t.Errorf("the work's context ended with %v, want ErrLeaseLost", cause)
		}
		if c.leads(t) || c.ended(t, "lease_lost") != 1 {
			t.Error("the metrics do not show the term's end")
		}
		if store.holder() != "somebody" {
			t.Errorf("lease is held by %q: a loser must not write to it", store.holder())
		}
		c.finish(t)
	})
}

func TestLeaderCreatesADeletedLockAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &lockStore{}
		a := start(t, store, untilDone)
		testkit.Pass(time.Minute)
		b := start(t, store, untilDone)
		testkit.Pass(time.Minute)
		a.link.set(silent)
		for deadline := time.Now().Add(time.Minute); !b.leads(t); testkit.Pass(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("no candidate took over")
			}
		}
		store.remove()
		testkit.Pass(time.Minute)
		if !b.leads(t) || store.holder() != b.identity {
			t.Errorf("lock is held by %q", store.holder())
		}
		for _, reason := range []string{"lease_lost", "trust_expired", "work_failed"} {
			if n := b.ended(t, reason); n != 0 {
				t.Errorf("%d terms ended for %s", n, reason)
			}
		}
		a.link.set(connected)
		a.finish(t)
		b.finish(t)
	})
}

// deadlocked never answers a renewal, and ignores the context.
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

func TestADeadlockedElectorEndsRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lock := &deadlocked{
			memoryLock: memoryLock{store: &lockStore{}, link: new(link), identity: "a"},
			on:         make(chan struct{}),
			release:    make(chan struct{}),
		}
		beats := 0
		e := leader.New(lock, leader.DefaultConfig(), leader.Options{Heartbeat: func() { beats++ }})
		result := make(chan error, 1)
		go func() { result <- e.Run(context.Background(), untilDone) }()
		testkit.Pass(time.Minute)
		if beats < 25 {
			t.Errorf("heart beat %d times in a minute, want one for every request", beats)
		}
		close(lock.on)
		// The term ends when trust expires. Then Run waits for the elector in vain.
		if err := <-result; !errors.Is(err, leader.ErrElectorStuck) {
			t.Errorf("Run returned %v, want ErrElectorStuck", err)
		}
		close(lock.release)
	})
}
