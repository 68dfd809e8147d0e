package kube_test

import (
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// thaw is how long a leader that was frozen may still have messages accepted after it
// resumes. It sees the time immediately, and aborts its work.
const thaw = time.Second

// A leader that is frozen for longer than its lease gets a successor. When it resumes, it
// stops leading and becomes a candidate again.
func TestLeaderFrozen(t *testing.T) {
	t.Parallel()
	s := newScenario(t, short)
	row := suite.results.of("SIGSTOP beyond the lease, SIGCONT", s.lease)
	first := s.awaitTermAfter(0)
	frozen := time.Now()
	must(t, first.leader.Signal(syscall.SIGSTOP))
	second := s.awaitTermAfter(first.epoch)
	row.add(second.first.Sub(frozen))
	thawed := time.Now()
	must(t, first.leader.Signal(syscall.SIGCONT))
	s.await("the end of the frozen leader's term", func() bool { return s.ended(first.leader.Name) == 1 })

	// The former leader must be able to lead again: below, only it is left.
	s.atAnyMoment()
	for _, process := range s.Running() {
		if process.Name != first.leader.Name && process.Name != "projector-0" {
			process.Kill()
		}
	}
	third := s.awaitTermAfter(second.epoch)
	if third.leader.Name != first.leader.Name {
		t.Errorf("%s leads, not %s, which alone is left", third.leader.Name, first.leader.Name)
	}
	_, late := s.invariants()
	row.addLate(len(late))
	for _, m := range late {
		after := m.At.Sub(thawed)
		t.Logf("%s of epoch %d is late: it was accepted %v after the thaw", m.MessageID, m.Epoch, after)
		if m.Epoch != first.epoch || after < 0 || after > thaw {
			t.Errorf("only what epoch %d publishes within %v of the thaw may be late", first.epoch, thaw)
		}
	}
}

// outage is a way in which an API server becomes unavailable and available again.
type outage struct {
	leave, back func(*scenario)
	// outlasts is a lease that does not expire in a brief outage.
	outlasts timing
}

var outages = map[string]outage{
	"killed": {
		leave:    func(s *scenario) { s.control.APIServer().Kill() },
		back:     func(s *scenario) { must(s.t, s.control.StartAPIServer(s.t.Context())) },
		outlasts: patient,
	},
	// Requests during this time are answered and executed when it continues.
	"hung": {
		leave:    func(s *scenario) { must(s.t, s.control.APIServer().Signal(syscall.SIGSTOP)) },
		back:     func(s *scenario) { must(s.t, s.control.APIServer().Signal(syscall.SIGCONT)) },
		outlasts: medium,
	},
}

// An API server that is unavailable for less than the leader's renew deadline changes
// nothing: the same term publishes during and after the outage.
func TestShortOutageOfTheAPIServer(t *testing.T) {
	t.Parallel()
	const least = 8 * time.Second
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLonelyScenario(t, outage.outlasts)
			first := s.awaitTermAfter(0)
			left := time.Now()
			outage.leave(s)
			s.await("events published without an API server", func() bool {
				return s.publishedSince(first.epoch, left.Add(least))
			})
			outage.back(s)
			back := time.Now()
			if away := back.Sub(left); away >= s.lease.deadline {
				t.Fatalf("the API server was away for %v: this test needs less than the renew deadline, %v", away, s.lease.deadline)
			}
			s.awaitRenewal(back)
			topic, late := s.invariants()
			s.neverLate(late)
			if topic.Epochs != 1 {
				t.Errorf("%d terms published: that of %s should have outlasted %v without an API server", topic.Epochs, first.leader.Name, back.Sub(left))
			}
		})
	}
}

// If the API server is unavailable for longer than the lease, no process publishes: the
// leader has stopped before its lease can have expired. Every publisher reports the outage.
// When the API server is back, a publisher leads again, and no process had to be restarted.
func TestLongOutageOfTheAPIServer(t *testing.T) {
	t.Parallel()
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLonelyScenario(t, short)
			row := suite.results.of("API server "+name+" beyond the lease (from its return)", s.lease)
			first := s.awaitTermAfter(0)
			left := time.Now()
			outage.leave(s)
			s.await("the end of the term", func() bool { return s.ended(first.leader.Name) == 1 })
			// Wait longer than a candidate needs to take over if it can reach the API
			// server.
			s.keeps("nobody leads", s.lease.crashMax(), func() bool {
				epoch, _ := s.claimed()
				return epoch == first.epoch
			})
			s.checkTrust(first, left)
			for n := range publishers {
				s.reportsOutage(s.process(publisher(n)))
			}
			s.statusWithoutLeader(first)

			returns := time.Now()
			outage.back(s)
			row.add(s.awaitTermAfter(first.epoch).first.Sub(returns))
			s.ready()
			for n := range publishers {
				s.logs(s.process(publisher(n)), "lease reached again")
			}
			if running := len(s.Running()); running != publishers+1 {
				t.Errorf("%d processes run, not %d", running, publishers+1)
			}
			_, late := s.invariants()
			s.neverLate(late)
		})
	}
}

// checkTrust fails if a term that lost the API server at that time published after its
// lease could have expired.
func (s *scenario) checkTrust(term reign, lost time.Time) {
	s.t.Helper()
	var last time.Time
	for _, m := range s.accepted() {
		if m.Epoch == term.epoch {
			last = m.At
		}
	}
	went := last.Sub(lost)
	s.t.Logf("the leader published for %v without the API server, its lease lasts %v", went, s.lease.duration)
	if went >= s.lease.duration {
		s.t.Error("the leader published for at least the duration of its lease, in which another could lead")
	}
}

// ended returns how many terms have ended in a process.
func (s *scenario) ended(name string) int {
	s.t.Helper()
	metrics, err := s.process(name).Metrics(s.t.Context())
	must(s.t, err)
	return int(metrics.Sum("penstock_publisher_terms_total"))
}

// publishedSince reports whether a message of a term was accepted after that time.
func (s *scenario) publishedSince(epoch int64, since time.Time) bool {
	accepted := s.accepted()
	if len(accepted) == 0 {
		return false
	}
	last := accepted[len(accepted)-1]
	return last.Epoch == epoch && last.At.After(since)
}

// awaitRenewal waits until the Lease was renewed after that time.
func (s *scenario) awaitRenewal(after time.Time) {
	s.t.Helper()
	leases, err := coordinationv1client.NewForConfig(s.control.Admin())
	must(s.t, err)
	s.await("a renewal of the Lease", func() bool {
		lease, err := leases.Leases(s.account.Namespace).Get(s.t.Context(), leaseName, metav1.GetOptions{})
		return err == nil && lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(after)
	})
}
