package e2e_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

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
	s.insert(counted("a", 0, one), counted("a", 1, one), counted("b", 1, one), counted("y", 1, one), counted("z", 0, one), counted("z", 1, one))
	s.start(1, 1)
	s.await("the readable events", func() bool {
		return s.count("a") == "n=1 after event 1" && s.count("b") == "n=1 after event 1" && s.count("y") == "n=1 after event 1" && s.count("z") == "n=1 after event 1"
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

	s.insert(counted("b", 0, one)) // now most aggregates begin at 0
	const why = "set PENSTOCK_FIRST_EVENT_ID to 0 for the publisher and the projector"
	s.refused(s.startPublisher(0), why)
	s.refused(s.startProjector(0), why)
	for program, check := range map[string]func() (harness.Output, error){
		"publisher": func() (harness.Output, error) { return s.Publisher(t.Context(), "check") },
		"projector": func() (harness.Output, error) { return s.Projector(t.Context(), path, "check", "--connect") },
	} {
		if out, err := check(); err != nil || out.Status == 0 || !strings.Contains(string(out.Stdout), why) {
			t.Errorf("%s check: %v, status %d: %s", program, err, out.Status, out.Stdout)
		}
	}

	for _, args := range [][]string{
		{"explain", "--projection=counts", "--aggregate=a"},
		{"projections", "rebuild", "counts", "--yes", "--why=tested"},
		{"verify"},
		{"diff", s.projectionsFile(string(s.workload.Projections))},
	} {
		if out, err := s.Projector(t.Context(), append([]string{path}, args...)...); err != nil || out.Status == 0 || !strings.Contains(string(out.Stderr), why) {
			t.Errorf("%s: %v, status %d: %s%s", args[0], err, out.Status, out.Stdout, out.Stderr)
		}
	}
	// A first file of projections needs no setting, and has the events 0 too.
	if out, err := s.Projector(t.Context(), "init", "--to=-"); err != nil || out.Status != 0 || !strings.Contains(string(out.Stderr), why) || !strings.Contains(string(out.Stdout), "Counted") {
		t.Errorf("init: %v, status %d: %s%s", err, out.Status, out.Stdout, out.Stderr)
	}

	// The checkpoint and the projections belong to ids from 1.
	s.SetEnv("PENSTOCK_FIRST_EVENT_ID=0")
	s.refused(s.startPublisher(0), "PENSTOCK_FIRST_EVENT_ID: recorded \\\"1\\\", now \\\"0\\\"", "set PENSTOCK_FIRST_EVENT_ID as recorded")
	s.refused(s.startProjector(0), "PENSTOCK_FIRST_EVENT_ID: recorded \\\"1\\\", now \\\"0\\\"", "set the variables as recorded")
}

// TestEventStoreThatCountsFromZeroIsRead runs services that are set to ids from 0: every read model
// has its first event, after kills of the publisher, after a rebuild, and for the commands.
func TestEventStoreThatCountsFromZeroIsRead(t *testing.T) {
	scene(t, eventStoreThatCountsFromZeroIsRead)
}

func eventStoreThatCountsFromZeroIsRead(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	s.SetEnv("PENSTOCK_FIRST_EVENT_ID=0")
	const aggregates, last = 20, 5
	id := func(i int) string { return fmt.Sprintf("counter-%02d", i) }
	for i := range aggregates {
		s.insert(counted(id(i), 0, bson.D{{Key: "n", Value: int64(1000)}}))
	}
	s.start(1, 1)
	all := func(want string) func() bool {
		return func() bool {
			for i := range aggregates {
				if s.count(id(i)) != want {
					return false
				}
			}
			return true
		}
	}
	s.await("the first events", all("n=1000 after event 0"))
	for n := int64(1); n <= last; n++ {
		if n == 3 {
			s.process("publisher-0").Kill()
			s.startPublisher(1)
		}
		for i := range aggregates {
			s.insert(counted(id(i), n, bson.D{{Key: "n", Value: int64(10)}}))
		}
	}
	s.await("all events", all("n=1050 after event 5"))

	s.awaitLive(map[string]int64{"counts": 1})
	path := "--projections=" + s.projectionsFile(string(s.workload.Projections))
	s.projectorCommand(0, path, "--first-event-id=0", "projections", "rebuild", "counts", "--yes", "--why=tested")
	s.awaitLive(map[string]int64{"counts": 2})
	if !all("n=1050 after event 5")() {
		t.Error("the rebuild has changed read models")
	}
	if stdout, _ := s.projectorCommand(0, path, "--first-event-id=0", "verify", "--sample=100%"); !strings.Contains(stdout, "fold of its events") {
		t.Errorf("verify says %s", stdout)
	}
	if stdout, _ := s.projectorCommand(0, path, "--first-event-id=0", "explain", "--projection=counts", "--aggregate="+id(0), "--until=0"); !strings.Contains(stdout, "after event 0") {
		t.Errorf("explain says %s", stdout)
	}
	if n := s.documents(s.state.Collection("quarantine")) + s.documents(s.state.Collection("parked")); n != 0 {
		t.Errorf("%d events are in the quarantine or parked", n)
	}

	// An event 0 that cannot be published or folded is shown with its id.
	if _, err := s.events.InsertMany(t.Context(), []any{
		bson.D{{Key: "_id", Value: "untyped"}, {Key: "aggregateId", Value: "x"}, {Key: "eventId", Value: 0}},
		counted("y", 0, bson.D{{Key: "n", Value: "a text"}}),
	}); err != nil {
		t.Fatal(err)
	}
	s.await("a quarantined event 0", func() bool {
		stdout, _ := s.publisherCommand(0, "--first-event-id=0", "quarantine", "list")
		return regexp.MustCompile(`untyped +x +0 `).MatchString(stdout)
	})
	if stdout, _ := s.projectorCommand(0, path, "--first-event-id=0", "explain", "--projection=counts", "--aggregate=y"); !strings.Contains(stdout, "before event 0 there is no document") {
		t.Errorf("explain says %s", stdout)
	}

	// Over an empty event store the setting could be wrong: what lacks an event 0 says so.
	s.insert(counted("z", 1, one))
	s.await("an aggregate that begins at 1", func() bool {
		stdout, _ := s.projectorCommand(0, path, "--first-event-id=0", "parked", "list", "--output=json")
		return strings.Contains(stdout, "set PENSTOCK_FIRST_EVENT_ID=1")
	})
}

// TestFirstEventThatContradictsIsRefused starts services over an empty event store, which cannot
// contradict PENSTOCK_FIRST_EVENT_ID yet. The first event 0 ends the service that expects 1, before the
// event goes to the quarantine or to the dead letters, and before a read model lacks it.
func TestFirstEventThatContradictsIsRefused(t *testing.T) {
	scene(t, firstEventThatContradictsIsRefused)
}

func firstEventThatContradictsIsRefused(t *testing.T) {
	t.Helper()
	const why = "set PENSTOCK_FIRST_EVENT_ID to 0 for the publisher and the projector"
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	publisher := s.startPublisher(0)
	s.ready()
	s.insert(counted("a", 0, one), counted("a", 1, one), counted("b", 0, one), counted("b", 1, one))
	s.refused(publisher, why)
	if n := s.documents(s.state.Collection("quarantine")); n != 0 {
		t.Errorf("%d events are in the quarantine", n)
	}

	s = newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	s.env["publisher-0"] = []string{"PENSTOCK_FIRST_EVENT_ID=0"}
	s.startPublisher(0)
	projector := s.startProjector(0)
	s.ready()
	s.insert(counted("a", 0, one), counted("a", 1, one), counted("b", 0, one), counted("b", 1, one))
	s.refused(projector, why)
	if n := s.documents(s.models.Collection("counts")) + s.published() - 4; n != 0 {
		t.Errorf("%d read models or other messages", n)
	}
}
