package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// events is the number of events of most scenarios, enough for a fault in the middle of the
// load.
const events = 2000

func TestLeaderKilledUnderLoad(t *testing.T) { scene(t, leaderKilledUnderLoad) }

func leaderKilledUnderLoad(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(events, 1))
	s.start(2, 1)
	s.load(4 * time.Second)
	s.awaitPublished(0.4)
	first := s.leader()
	first.Kill()
	s.await("a successor", func() bool {
		leader, err := s.Leader(t.Context())
		return err == nil && leader.Name != first.Name
	})
	s.checkTerms("published", s.invariants().Epochs, 2)
}

// The lease lasts ten minutes, so the test ends only if nobody waits for it.
func TestLeaderThatRestartsDoesNotWaitForItsLease(t *testing.T) {
	needsProcesses(t)
	t.Parallel()
	s := newScenario(t, shop.New(events, 5))
	env := []string{"PENSTOCK_RUN_DIRECTORY=" + t.TempDir(), "PENSTOCK_LEASE_DURATION=10m", "PENSTOCK_LEASE_RENEW_DEADLINE=5m"}
	s.env["publisher-0"], s.env["publisher-1"] = env, env
	s.start(1, 1)
	s.load(4 * time.Second)
	s.awaitPublished(0.2)
	for restart := range 3 {
		s.leader().Kill()
		s.startPublisher(0)
		s.await("the next term", func() bool { s.ageTerm(); return s.epoch() >= int64(2+restart) })
		s.awaitPublished(0.3 + 0.1*float64(restart))
	}
	// A leader that is stopped lives: a process on the same host must not take its lease.
	first := s.leader()
	if err := first.Signal(sigStop); err != nil {
		t.Fatal(err)
	}
	s.ageTerm()
	epoch := s.epoch()
	second := s.startPublisher(1)
	s.await("the second publisher to stand by", func() bool { return strings.Contains(s.log(second), "another process leads") })
	if err := first.Signal(sigContinue); err != nil {
		t.Fatal(err)
	}
	s.invariants()
	if now := s.epoch(); now != epoch {
		t.Errorf("the epoch is %d, and was %d while the leader stood still", now, epoch)
	}
}

// ageTerm dates the begin of the stored term back by an hour. Only after a long term may a
// process take the lease of its predecessor at once.
func (s *scenario) ageTerm() {
	s.t.Helper()
	leases := s.state.Collection("leader_leases")
	var lease struct {
		ID     string `bson:"_id"`
		Record struct {
			Acquired time.Time `bson:"acquireTime"`
		} `bson:"record"`
	}
	err := leases.FindOne(s.t.Context(), bson.D{}).Decode(&lease)
	if err == nil {
		_, err = leases.UpdateByID(s.t.Context(), lease.ID, bson.D{{Key: "$set", Value: bson.D{{Key: "record.acquireTime", Value: lease.Record.Acquired.Add(-time.Hour)}}}})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestLeaderStopsUnderLoadAndHandsOver(t *testing.T) { scene(t, leaderStopsUnderLoadAndHandsOver) }

func leaderStopsUnderLoadAndHandsOver(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(events, 2))
	s.start(2, 1)
	s.load(4 * time.Second)
	s.awaitPublished(0.4)
	first := s.leader()
	ctx, cancel := context.WithTimeout(t.Context(), settleTimeout())
	defer cancel()
	if err := first.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	topic := s.invariants()
	s.checkTerms("published", topic.Epochs, 2)
	// A clean handover saves the token of the last acknowledged event.
	if topic.Repeats != 0 && s.leasesLost() == 0 {
		t.Errorf("a clean handover published %d events twice", topic.Repeats)
	}
}
