package term

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/penstock-cdc/penstock/publisher/internal/config"
)

func TestScanIsNotRepeatedAfterItsLeaderIsKilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.store.fill("a", 100, false)
		term := s.lead(t)
		pass(10 * time.Second)
		s.kill(term)
		first := s.topic.count()

		s.store.insert("a", 101, false)
		s.serve(t, 10*time.Second)
		s.published(t)
		// The operation time noted before the scan is the time of the last event in the
		// scan.
		if got := s.topic.count() - first; got > 2 {
			t.Errorf("the second term published %d events, want the new one and at most one repeated", got)
		}
	})
}

// The stream starts after a/100. A scan after a lost oplog must not publish the events before
// that: they would follow the later ones of their aggregate.
func TestRecoveryLeavesOutWhatIsOlderThanTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.runner.start = config.StartPoint{Now: true}
		next := int64(0)
		insert := func(n int) {
			for range n {
				next++
				s.store.insert("a", next, false)
			}
		}
		insert(200)
		for range 2 {
			term := s.lead(t)
			insert(5)
			pass(5 * time.Second)
			s.kill(term)
			insert(5)
			s.store.trim(1)
		}
		s.runner.start = config.StartPoint{}
		s.serve(t, time.Minute)
		if got := testutil.ToFloat64(s.runner.scans.WithLabelValues(scanHistoryLost)); got == 0 {
			t.Error("the oplog was not lost")
		}
		oldest := next
		for _, m := range s.topic.messages {
			oldest = min(oldest, m.EventID)
		}
		// The tolerance for the clocks of the writers is a minute, here 60 events.
		if oldest < 140 || oldest > 201 {
			t.Errorf("published from a/%d, want from the start on, a/201, or up to a minute before", oldest)
		}
		for id := int64(201); id <= next; id++ {
			if !s.topic.has(fmt.Sprint("a/", id)) {
				t.Errorf("a/%d is lost", id)
			}
		}
	})
}
