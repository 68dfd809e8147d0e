package term

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/penstock-cdc/penstock/publisher/internal/leader"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// ownLock is a lock that only one process uses.
type ownLock struct {
	record *resourcelock.LeaderElectionRecord
}

func (l *ownLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if l.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "own")
	}
	return l.record, nil, nil
}

func (l *ownLock) Create(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.record = &record
	return nil
}

func (l *ownLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Create(ctx, record)
}

func (*ownLock) RecordEvent(string) {}
func (*ownLock) Identity() string   { return "test" }
func (*ownLock) Describe() string   { return "own" }

// alone is an elector that leads as soon as it runs, with the default drain timeout.
func alone(t *testing.T) *leader.Elector {
	t.Helper()
	timing := leader.NewConfig(15*time.Second, 10*time.Second, 2*time.Second, stopTime)
	return leader.New(&ownLock{}, timing, leader.Options{})
}

func TestAStopEndsTheElectionCleanly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.store.insert("a", 1, false)
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, stop)
		began := time.Now()
		if err := s.runner.Run(ctx, alone(t)); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("an idle publisher stopped after %v", took-10*time.Second)
		}
		if !s.topic.has("a/1") {
			t.Error("nothing was published")
		}
	})
}

func TestFatalErrorOfATermEndsTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.store.insert("a", 1, false)
		s.topic.refuse = &publish.SendError{Fault: publish.FaultFatal, Err: errors.New("no such topic")}
		if err := s.runner.Run(t.Context(), alone(t)); err == nil || !strings.Contains(err.Error(), "no such topic") {
			t.Errorf("ended with %v", err)
		}
	})
}
