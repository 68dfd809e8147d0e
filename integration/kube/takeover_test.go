package kube_test

import (
	"syscall"
	"testing"
	"time"
)

// Numbers of measured takeovers: 20 handovers, and 20 crashes.
const (
	handovers = 20
	// A crash is mostly waiting, so several pipelines crash concurrently.
	crashPipelines, crashesEach = 4, 5
)

// A leader that is asked to stop hands over immediately, publishes nothing twice and loses
// nothing.
func TestHandover(t *testing.T) {
	s := newScenario(t, defaults)
	row := suite.results.of("SIGTERM", s.lease)
	now := s.awaitTermAfter(0)
	for range handovers {
		stopped := time.Now()
		must(t, now.leader.Signal(syscall.SIGTERM))
		next := s.awaitTermAfter(now.epoch)
		row.add(next.first.Sub(stopped))
		s.exits(now.leader)
		s.startPublisher(now.leader.Name)
		s.ready()
		s.atAnyMoment()
		now = next
	}
	topic, late := s.invariants()
	s.neverLate(late)
	if topic.Repeats != 0 {
		t.Errorf("%d clean handovers published %d events twice", handovers, topic.Repeats)
	}
	if topic.Epochs != handovers+1 {
		t.Errorf("%d terms published, not %d", topic.Epochs, handovers+1)
	}
	row.check(t, handoverMean, handoverMax)
}

// A leader that dies has a successor when its lease has expired.
func TestCrash(t *testing.T) {
	for _, lease := range []timing{short, defaults} {
		row := suite.results.of("SIGKILL", lease)
		t.Run(lease.name(), func(t *testing.T) {
			for range crashPipelines {
				t.Run("pipeline", func(t *testing.T) {
					t.Parallel()
					crash(t, lease, row)
				})
			}
		})
		row.check(t, lease.crashMean(), lease.crashMax())
	}
}

func crash(t *testing.T, lease timing, row *row) {
	t.Helper()
	s := newScenario(t, lease)
	now := s.awaitTermAfter(0)
	for range crashesEach {
		killed := time.Now()
		now.leader.Kill()
		next := s.awaitTermAfter(now.epoch)
		row.add(next.first.Sub(killed))
		s.startPublisher(now.leader.Name)
		s.ready()
		s.atAnyMoment()
		now = next
	}
	topic, late := s.invariants()
	s.neverLate(late)
	if topic.Epochs != crashesEach+1 {
		t.Errorf("%d terms published, not %d", topic.Epochs, crashesEach+1)
	}
}

// check fails if the takeovers took too long.
func (r *row) check(t *testing.T, mean, limit time.Duration) {
	t.Helper()
	if t.Failed() {
		return
	}
	_, gotMean, gotMax := r.bounds()
	if gotMean >= mean {
		t.Errorf("%s with %v took %v on average: it must be less than %v", r.fault, r.lease, gotMean, mean)
	}
	if gotMax > limit {
		t.Errorf("%s with %v took %v at most: %v is allowed", r.fault, r.lease, gotMax, limit)
	}
}
