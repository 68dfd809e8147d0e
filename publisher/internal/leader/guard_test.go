package leader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// scriptedLock returns the answers that a test has set.
type scriptedLock struct {
	holder  string
	renewed time.Time
	hang    bool
	updates []string // the holders that were written
}

func (l *scriptedLock) answer(ctx context.Context) error {
	if l.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (l *scriptedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record := &resourcelock.LeaderElectionRecord{
		HolderIdentity: l.holder, RenewTime: metav1.NewTime(l.renewed), LeaseDurationSeconds: 15,
	}
	raw, err := json.Marshal(record)
	return record, raw, errors.Join(err, l.answer(ctx))
}

func (l *scriptedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

func (l *scriptedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.answer(ctx); err != nil {
		return err
	}
	l.holder = record.HolderIdentity
	l.updates = append(l.updates, record.HolderIdentity)
	return nil
}

func (l *scriptedLock) RecordEvent(string) {}
func (l *scriptedLock) Identity() string   { return "a" }
func (l *scriptedLock) Describe() string   { return "scripted" }

var (
	renewal = resourcelock.LeaderElectionRecord{HolderIdentity: "a"}
	release = resourcelock.LeaderElectionRecord{}
)

func newHeldGuard(t *testing.T, lock *scriptedLock) *guard {
	t.Helper()
	g := newGuard(lock, DefaultConfig(), new(contact))
	if g.begin() {
		t.Error("work may begin before the lock is taken")
	}
	if err := g.Create(t.Context(), renewal); err != nil {
		t.Fatal(err)
	}
	if !g.begin() {
		t.Error("begin returned false although the lock is taken")
	}
	return g
}

// The release of client-go reads the record, ignores its holder, and overwrites it.
func TestGuardRefusesToReleaseTheLeaseOfAnotherHolder(t *testing.T) {
	t.Parallel()
	lock := &scriptedLock{}
	g := newHeldGuard(t, lock)
	g.end()
	lock.holder = "b"
	if _, _, err := g.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Update(t.Context(), release); !errors.Is(err, errNotOurs) {
		t.Errorf("release returned %v, want errNotOurs", err)
	}
	if lock.holder != "b" {
		t.Errorf("lock is held by %q, want b", lock.holder)
	}
}

func TestGuardReleasesAfterTheWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lock := &scriptedLock{}
		g := newHeldGuard(t, lock)
		released := make(chan error, 1)
		go func() { released <- g.Update(t.Context(), release) }()
		synctest.Wait()
		select {
		case <-g.lost:
		default:
			t.Error("the work's context did not end when the elector gave up")
		}
		if len(lock.updates) > 1 {
			t.Error("lock was released while the work ran")
		}
		if g.begin() {
			t.Error("begin returned true although the elector gave up")
		}
		g.end()
		if err := <-released; err != nil || lock.holder != "" {
			t.Errorf("release returned %v and left the lock to %q", err, lock.holder)
		}
	})
}

func TestGuardEndsAReleaseWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lock := &scriptedLock{}
		g := newHeldGuard(t, lock)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := g.Update(ctx, release); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("release returned %v, want the context's error", err)
		}
		if lock.holder != "a" {
			t.Errorf("lock is held by %q, want a", lock.holder)
		}
		g.end()
	})
}

func TestGuardBoundsEachRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lock := &scriptedLock{}
		g := newHeldGuard(t, lock)
		trusted := g.deadline()
		lock.hang = true
		for name, request := range map[string]func() error{
			"get":    func() error { _, _, err := g.Get(t.Context()); return err },
			"create": func() error { return g.Create(t.Context(), renewal) },
			"update": func() error { return g.Update(t.Context(), renewal) },
		} {
			// A renewal is due.
			<-time.After(DefaultConfig().RetryPeriod)
			begun := time.Now()
			if err := request(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s returned %v, want a timeout", name, err)
			}
			if took := time.Since(begun); took != DefaultConfig().RequestTimeout {
				t.Errorf("%s took %v", name, took)
			}
		}
		if g.deadline() != trusted {
			t.Error("a failed renewal moved the deadline")
		}
		g.end()
		begun := time.Now()
		if err := g.Update(t.Context(), release); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(begun) != DefaultConfig().RequestTimeout {
			t.Errorf("release returned %v after %v", err, time.Since(begun))
		}
		// Trust has expired by now, so a term must not begin.
		if g.begin() {
			t.Error("work may begin on a renewal that is too old")
		}
	})
}

// The elector sends a request in each PollPeriod.
func TestGuardRenewsOnceInARetryPeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := DefaultConfig()
		lock := &scriptedLock{}
		g := newHeldGuard(t, lock)
		begun := time.Now()
		for time.Since(begun) < 10*config.RetryPeriod {
			<-time.After(config.PollPeriod)
			if err := g.Update(t.Context(), renewal); err != nil {
				t.Fatal(err)
			}
		}
		if renewals := len(lock.updates) - 1; renewals != 10 {
			t.Errorf("renewed %d times in 10 retry periods", renewals)
		}
		lock.updates = nil
		g.end()
		if err := g.Update(t.Context(), release); err != nil || len(lock.updates) != 1 {
			t.Errorf("a release soon after a renewal: %v, %d writes", err, len(lock.updates))
		}
	})
}

// The elector compares bytes, in which the times of a Lease have no fractions of seconds.
func TestGuardDistinguishesRenewalsWithinOneSecond(t *testing.T) {
	t.Parallel()
	second := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	lock := &scriptedLock{holder: "b", renewed: second}
	g := newGuard(lock, DefaultConfig(), new(contact))
	_, before, err := g.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, same, _ := g.Get(t.Context())
	lock.renewed = second.Add(500 * time.Millisecond)
	_, after, _ := g.Get(t.Context())
	if !bytes.Equal(before, same) || bytes.Equal(before, after) {
		t.Errorf("read %s, %s and, after a renewal, %s", before, same, after)
	}
}
