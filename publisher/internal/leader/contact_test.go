package leader_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/zerologr"
	"github.com/rs/zerolog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/penstock-cdc/penstock/publisher/internal/leader"
)

// forbidden is a lock that its process may not read while it is on.
type forbidden struct {
	memoryLock
	mu sync.Mutex
	on bool
}

func (l *forbidden) set(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on = on
}

func (l *forbidden) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	on := l.on
	l.mu.Unlock()
	if on {
		return nil, nil, apierrors.NewForbidden(leaseKind, "publisher", errors.New("no role"))
	}
	return l.memoryLock.Get(ctx)
}

func TestALockThatFailsIsToldOnceAndInItsOwnWords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log, clientLog bytes.Buffer
		lock := &forbidden{memoryLock: memoryLock{store: &lockStore{}, link: newLink(1, 0), identity: "a"}, on: true}
		e, err := leader.New(lock, leader.DefaultConfig(), leader.Options{Logger: zerolog.New(&log).Level(zerolog.InfoLevel)})
		if err != nil {
			t.Fatal(err)
		}
		client := zerolog.New(&clientLog).Level(zerolog.InfoLevel)
		ctx, stop := context.WithCancel(klog.NewContext(t.Context(), zerologr.New(&client)))
		result := make(chan error, 1)
		go func() { result <- e.Run(ctx, untilDone) }()
		pass(time.Minute)
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "no role") ||
			!strings.Contains(got, "Grant its service account get, create and update on leases") {
			t.Errorf("a minute without rights is logged as\n%s", got)
		}
		log.Reset()
		lock.set(false)
		pass(time.Minute)
		if got := log.String(); strings.Count(got, "can be reached again") != 1 || !strings.Contains(got, "term began") {
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
