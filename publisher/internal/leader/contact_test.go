package leader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/mongo"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/leader"
)

// failing is a lock whose reads and updates fail while err is set.
type failing struct {
	memoryLock
	mu  sync.Mutex
	err error
}

func (l *failing) set(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func (l *failing) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.failure(); err != nil {
		return nil, nil, err
	}
	return l.memoryLock.Get(ctx)
}

func (l *failing) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.failure(); err != nil {
		return err
	}
	return l.memoryLock.Update(ctx, record)
}

func (l *failing) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// TestReadOfASecondaryIsNoContact has a lock that answers reads, and refuses all writes.
func TestReadOfASecondaryIsNoContact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		notPrimary := mongo.CommandError{Code: 10107, Message: "not primary"}
		lock := &secondary{failing{memoryLock: memoryLock{store: &lockStore{}, link: new(link), identity: "a"}, err: notPrimary}}
		e := leader.New(lock, leader.DefaultConfig(), leader.Options{Logger: zerolog.New(&out).Level(zerolog.InfoLevel)})
		ctx, cancel := context.WithCancel(context.Background())
		result := make(chan error, 1)
		go func() { result <- e.Run(ctx, untilDone) }()
		testkit.Pass(time.Minute)
		if e.CheckLock(t.Context()) == nil {
			t.Error("the process is ready to lead")
		}
		cancel()
		if err := <-result; err != nil {
			t.Error(err)
		}
		if log := out.String(); strings.Count(log, "is no primary; retrying") != 1 || strings.Contains(log, "reached again") {
			t.Errorf("logged\n%s", log)
		}
	})
}

// secondary answers reads, and refuses writes.
type secondary struct{ failing }

func (l *secondary) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return l.memoryLock.Get(ctx)
}

func (l *secondary) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	return l.failure()
}

func TestFailingLockIsLoggedOnceWithItsError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log, clientLog bytes.Buffer
		lock := &failing{memoryLock: memoryLock{store: &lockStore{}, link: new(link), identity: "a"}, err: io.ErrUnexpectedEOF}
		e := leader.New(lock, leader.DefaultConfig(), leader.Options{Logger: zerolog.New(&log).Level(zerolog.InfoLevel)})
		client := funcr.New(func(_, line string) { clientLog.WriteString(line + "\n") }, funcr.Options{})
		ctx, stop := context.WithCancel(klog.NewContext(t.Context(), client))
		result := make(chan error, 1)
		go func() { result <- e.Run(ctx, untilDone) }()
		testkit.Pass(time.Minute)
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "unexpected EOF") {
			t.Errorf("a minute without contact is logged as\n%s", got)
		}
		log.Reset()
		lock.set(apierrors.NewForbidden(leaseKind, "publisher", errors.New("no role")))
		testkit.Pass(time.Minute)
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "no role") ||
			!strings.Contains(got, "Grant its service account get and update on the lease") {
			t.Errorf("a minute without rights is logged as\n%s", got)
		}
		log.Reset()
		lock.set(nil)
		testkit.Pass(time.Minute)
		if got := log.String(); strings.Count(got, "lease reached again") != 1 || !strings.Contains(got, "term began") {
			t.Errorf("the end of it is logged as\n%s", got)
		}
		stop()
		if err := <-result; err != nil {
			t.Error(err)
		}
		if clientLog.Len() > 0 {
			t.Errorf("client-go logs\n%s", clientLog.String())
		}
	})
}

// An uninstall can delete the service account before the pods have stopped.
func TestForbiddenReleaseIsNotAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		lock := &failing{memoryLock: memoryLock{store: &lockStore{}, link: new(link), identity: "a"}}
		e := leader.New(lock, leader.DefaultConfig(), leader.Options{Logger: zerolog.New(&log)})
		stop := testkit.Start(t, func(ctx context.Context) error { return e.Run(ctx, untilDone) })
		testkit.Pass(time.Minute)
		log.Reset()
		lock.set(apierrors.NewUnauthorized("Unauthorized"))
		stop()
		got := log.String()
		if strings.Contains(got, `"level":"error"`) || strings.Contains(got, `"level":"warn"`) || !strings.Contains(got, "lease not reached while stopping") {
			t.Errorf("a release that is refused is logged as\n%s", got)
		}
	})
}

// A rollout must stop at a process that never reaches the lock store. A short outage must
// not make the pods unready: the leader outlasts it.
func TestUnreachableLockIsNotReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lock := &failing{memoryLock: memoryLock{store: &lockStore{}, link: new(link), identity: "a"}, err: io.ErrUnexpectedEOF}
		config := leader.DefaultConfig()
		e := leader.New(lock, config, leader.Options{})
		unready := func(when string, words ...string) {
			t.Helper()
			err := e.CheckLock(t.Context())
			for _, word := range words {
				if err == nil || !strings.Contains(err.Error(), word) {
					t.Errorf("%s: CheckLock returned %v, want an error with %q", when, err, word)
				}
			}
		}
		ready := func(when string) {
			t.Helper()
			if err := e.CheckLock(t.Context()); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
		unready("before the first request", "not been read yet")
		testkit.Start(t, func(ctx context.Context) error { return e.Run(ctx, untilDone) })
		testkit.Pass(time.Second)
		unready("without a first answer", "lease not reached", "unexpected EOF")
		lock.set(nil)
		testkit.Pass(time.Minute)
		ready("after the first answer")
		lock.set(apierrors.NewForbidden(leaseKind, "publisher", errors.New("no role")))
		testkit.Pass(config.LeaseDuration / 2)
		ready("in a short outage")
		testkit.Pass(time.Minute)
		unready("in a long outage", "Grant its service account get and update on the lease", "no role", "(for 1m")
		lock.set(nil)
		testkit.Pass(time.Minute)
		ready("after the outage")
	})
}

// A lock store that is always slower than a request may take leaves no leader. The log and
// the readiness say so from the first request on.
func TestSlowLockIsExplained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		lock := &failing{memoryLock: memoryLock{store: &lockStore{}, link: new(link), identity: "a"}, err: context.DeadlineExceeded}
		e := leader.New(lock, leader.DefaultConfig(), leader.Options{Logger: zerolog.New(&log).Level(zerolog.InfoLevel)})
		testkit.Start(t, func(ctx context.Context) error { return e.Run(ctx, untilDone) })
		testkit.Pass(5 * time.Second)
		for what, got := range map[string]string{"log": log.String(), "readiness": fmt.Sprint(e.CheckLock(t.Context()))} {
			if !strings.Contains(got, "PENSTOCK_LEASE_RENEW_DEADLINE") {
				t.Errorf("%s: %q", what, got)
			}
		}
	})
}
