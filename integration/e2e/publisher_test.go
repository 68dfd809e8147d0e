package e2e_test

import (
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// events is the number of events of most scenarios, enough for a fault in the middle of the
// load.
const events = 2000

// A process that restarts under its identity, as a container in its pod does, continues at
// once. The lease lasts ten minutes, so the test ends only if nobody waits for it.
func TestLeaderThatRestartsDoesNotWaitForItsLease(t *testing.T) {
	needsProcesses(t)
	t.Parallel()
	s := newScenario(t, shop.New(events, 5))
	s.env["publisher-0"] = []string{"PENSTOCK_LEASE_DURATION=10m", "PENSTOCK_LEASE_RENEW_DEADLINE=5m"}
	s.start(1, 1)
	s.load(4 * time.Second)
	s.awaitPublished(0.2)
	for restart := range 3 {
		s.leader().Kill()
		s.startPublisher(0)
		s.await("the next term", func() bool { return s.epoch() >= int64(2+restart) })
		s.awaitPublished(0.3 + 0.1*float64(restart))
	}
	s.invariants()
}
