package term

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// newRefusalSetup is a setup at a time after that of its events.
func newRefusalSetup(t *testing.T) (*setup, *publish.Metrics) {
	t.Helper()
	pass(time.Until(time.Unix(clusterBase, 0)))
	s := newSetup(t, random())
	metrics := publish.NewMetrics(nil)
	s.runner.publishing.Metrics = metrics
	s.runner.publishing.Availability = publish.NewAvailability(publish.AvailabilityOptions{FatalAfter: 10 * time.Minute})
	s.runner.publishing.MaxInflightEvents, s.runner.window = 10_000, 10_000
	return s, metrics
}

// TestRestartsDoNotFillTheQuarantine has a topic that refuses many events for hours, because a
// setting is wrong, while publishers crash. Their events wait until the setting is corrected.
func TestRestartsDoNotFillTheQuarantine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		keys, bad int
		max       int // events in the quarantine
	}{
		"all of one key": {1, 1, 10},
		"all":            {20, 20, 0},
		"a third":        {300, 100, 10},
		// One key that waits is a small part of the recent events, so some of its events go to
		// the quarantine: at most the share.
		"one of six keys": {6, 1, 9 * 90 * 4 / 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, metrics := newRefusalSetup(t)
				isBad := func(n int) bool { return n%test.keys < test.bad }
				s.topic.refuses = func(m *event.Message) bool { return strings.HasPrefix(m.AggregateID, "bad") }
				inserted, good := 0, 0
				insert := func() {
					for range 9 {
						key := "good"
						if isBad(inserted) {
							key = "bad"
						} else {
							good++
						}
						s.store.insert(fmt.Sprint(key, inserted%test.keys), int64(1+inserted/test.keys), false)
						inserted++
					}
				}
				var term *leading
				for range 4 {
					if term != nil {
						s.kill(term)
					}
					term = s.lead(t)
					for range 90 {
						insert()
						pass(time.Minute)
					}
					select {
					case err := <-term.result:
						t.Fatalf("the publisher ended: %v", err)
					default:
					}
				}
				quarantined := len(s.quarantine.ids())
				if quarantined > test.max {
					t.Errorf("%d events are in the quarantine, want %d at most", quarantined, test.max)
				}
				if found := delayedKeys(metrics)(t.Context()); test.bad > 1 && (len(found) != 1 || !strings.Contains(found[0].Text, "not allowed")) {
					t.Errorf("conditions: %v", found)
				}
				seen := map[string]bool{}
				for _, m := range s.topic.messages {
					seen[m.MessageID] = true
				}
				if len(seen) != good {
					t.Errorf("%d of %d events that the topic accepts are published", len(seen), good)
				}

				s.topic.mu.Lock()
				s.topic.refuses = nil
				s.topic.mu.Unlock()
				pass(time.Minute)
				if found := delayedKeys(metrics)(t.Context()); len(found) > 0 {
					t.Errorf("conditions after the correction: %v", found)
				}
				if n := len(s.quarantine.ids()); n != quarantined {
					t.Errorf("%d events are in the quarantine, %d before the correction", n, quarantined)
				}
				if err := term.end(term.stop); err != nil {
					t.Error(err)
				}
				s.published(t)
			})
		})
	}
}

// TestSingleRefusedEventIsQuarantinedAfterARestart: a few refused events of earlier terms do not
// keep the next one from the quarantine.
func TestSingleRefusedEventIsQuarantinedAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := newRefusalSetup(t)
		s.topic.refuses = func(m *event.Message) bool { return m.AggregateID == "bad" && m.EventID%2 == 1 }
		for n := range int64(8) {
			term := s.lead(t)
			for i := range int64(30) {
				s.store.insert("good", 1+30*n+i, false)
				if i == 10 {
					s.store.insert("bad", 2*n+1, false)
					s.store.insert("bad", 2*n+2, false)
				}
				pass(time.Second)
			}
			if got := len(s.quarantine.ids()); got != int(n+1) || !s.topic.has(fmt.Sprint("bad/", 2*n+2)) {
				t.Errorf("in term %d: %d events are in the quarantine after 20 s", n+1, got)
			}
			s.kill(term)
		}
	})
}

// TestKeysOfQuarantinedEventsContinueAfterARestart: a restart reads events again that the topic has
// refused. Their keys went on before, and must not wait because too many other events wait.
func TestKeysOfQuarantinedEventsContinueAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const keys = 60
		s, _ := newRefusalSetup(t)
		s.topic.refuses = func(m *event.Message) bool { return m.EventID == 1 && strings.HasPrefix(m.AggregateID, "bad") }
		term := s.lead(t)
		// Only while the topic accepts other events is a refusal that of the event.
		good := int64(0)
		pass := func(d time.Duration) {
			for range d / time.Second {
				good++
				s.store.insert("good", good, false)
				pass(time.Second)
			}
		}
		for id := range int64(2) {
			for key := range keys {
				s.store.insert(fmt.Sprint("bad", key), id+1, false)
			}
		}
		pass(5 * time.Minute)
		var aside []int
		for key := range keys {
			if s.topic.has(fmt.Sprintf("bad%d/2", key)) {
				aside = append(aside, key)
			}
		}
		if n := len(s.quarantine.ids()); n != len(aside) || n == 0 || n > keys/2 {
			t.Fatalf("%d events are in the quarantine, and %d keys go on", n, len(aside))
		}
		s.kill(term)
		s.lead(t)
		for _, key := range aside {
			s.store.insert(fmt.Sprint("bad", key), 3, false)
		}
		pass(50 * time.Second)
		for _, key := range aside {
			if !s.topic.has(fmt.Sprintf("bad%d/3", key)) {
				t.Errorf("key bad%d waits after the restart", key)
			}
		}
	})
}
