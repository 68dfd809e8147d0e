package e2e_test

import (
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// Event 0 of a single aggregate is a mistake of its writer: the event goes to the quarantine, and a
// verification does not call the aggregate right. If ids begin at 0 in the event store, no service
// starts, because every read model would lack its first event.
func TestEventStoreThatCountsFromZeroIsRefused(t *testing.T) {
	scene(t, eventStoreThatCountsFromZeroIsRefused)
}

func eventStoreThatCountsFromZeroIsRefused(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	s.insert(counted("a", 0, one), counted("a", 1, one), counted("b", 0, one), counted("b", 1, one), counted("z", 1, one))
	s.start(1, 1)
	s.await("the readable events", func() bool {
		return s.count("a") == "n=1 after event 1" && s.count("b") == "n=1 after event 1" && s.count("z") == "n=1 after event 1"
	})
	var found []quarantined
	s.await("both events 0 in the quarantine", func() bool {
		s.publisherJSON(0, &found, "quarantine", "list", "--reason=out_of_range")
		return len(found) == 2
	})
	s.awaitLive(map[string]int64{"counts": 1})
	path := "--projections=" + s.projectionsFile(string(s.workload.Projections))
	for args, want := range map[string]string{
		"--aggregate=a": "no read model has 1 event of this aggregate that breaks the contract",
		"--sample=100%": "no read model has 2 events of the event store that break the contract",
	} {
		if stdout, _ := s.projectorCommand(0, path, "verify", args); !strings.Contains(stdout, want) || strings.Contains(stdout, "fold of its events") {
			t.Errorf("verify %s says %s", args, stdout)
		}
	}
	for _, p := range s.Running() {
		s.stopped(p)
	}

	s.insert(counted("z", 0, one))
	const why = "event ids begin at 0 in this event store"
	s.refused(s.startPublisher(0), why, "PENSTOCK_FIELD_EVENT_ID")
	s.refused(s.startProjector(0), why, "PENSTOCK_FIELD_EVENT_ID")
	for program, check := range map[string]func() (harness.Output, error){
		"publisher": func() (harness.Output, error) { return s.Publisher(t.Context(), "check") },
		"projector": func() (harness.Output, error) { return s.Projector(t.Context(), path, "check", "--connect") },
	} {
		if out, err := check(); err != nil || out.Status == 0 || !strings.Contains(string(out.Stdout), why) {
			t.Errorf("%s check: %v, status %d: %s", program, err, out.Status, out.Stdout)
		}
	}
}
