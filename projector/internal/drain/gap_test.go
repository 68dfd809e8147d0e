package drain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/drain"
)

// A gap is given up after the gap timeout, even if each tenure is shorter and begins with
// another event than the last one of the previous tenure.
func TestGapTimeoutCountsAcrossTenures(t *testing.T) {
	t.Parallel()
	withEachReceiver(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		m := newReadModels(time.Millisecond)
		broker.send("bucket", "a", 3)
		broker.send("bucket", "a", 2)
		s := start(t, broker, m, func(o *drain.Options) {
			// The handler gets each event as soon as it is received.
			o.BatchSize = 1
			o.SessionTenure, o.GapTimeout = 2*time.Second, 10*time.Second
		})
		checkGivenUp(t, s, "a", 10*time.Second, 15*time.Second)
		s.end(t)
	})
}

// A gap is given up after the gap timeout, even if its session is accepted again only
// after the time for which the process remembers a store's failure.
func TestGapTimeoutCountsWhileOtherSessionsAreDrained(t *testing.T) {
	t.Parallel()
	withEachReceiver(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		const sessions, tenure, parkAfter = 8, 2 * time.Second, time.Second
		m := newReadModels(time.Millisecond)
		for i := range sessions {
			broker.send(fmt.Sprint("bucket-", i), fmt.Sprint("aggregate-", i), 2)
		}
		s := start(t, broker, m, func(o *drain.Options) {
			o.Slots, o.SessionTenure, o.ParkAfter, o.GapTimeout = 1, tenure, parkAfter, 10*time.Second
		})
		checkGivenUp(t, s, "aggregate-0", 10*time.Second, 2*sessions*tenure)
		s.end(t)
	})
}

// checkGivenUp waits until every message is settled, and checks how long that takes and
// that the aggregate was given up for a missing event.
func checkGivenUp(t *testing.T, s *setup, aggregate string, atLeast, atMost time.Duration) {
	t.Helper()
	if took := s.settled(t, atMost); took < atLeast {
		t.Errorf("everything was settled after %s, before the gap timeout of %s", took, atLeast)
	}
	if reason := s.model.reason(aggregate); reason != "missing" {
		t.Errorf("%s was given up as %q, want missing", aggregate, reason)
	}
}
