package term

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/publisher/internal/leader"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// alone is an elector that always leads, with the default drain timeout.
func alone(t *testing.T) *leader.Elector {
	t.Helper()
	timing := leader.DefaultConfig()
	timing.StopTimeout = stopTime
	elector := leader.NewAlone("test", timing, leader.Options{})
	return elector
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
