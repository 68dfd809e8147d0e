package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// listedDeadLetter is a message as the command deadletters list prints it.
type listedDeadLetter struct {
	Sequence, EventID                          int64
	Reason, AggregateID, EventType, Next, Note string
	Parked                                     []string
}

// TestDeadLettersAreListedAndDiscarded checks that an operator sees the dead-letter queue
// and removes exactly the chosen messages. Parked aggregates stay parked. The status shows
// all of it.
func TestDeadLettersAreListedAndDiscarded(t *testing.T) { scene(t, deadLettersAreListedAndDiscarded) }

func deadLettersAreListedAndDiscarded(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	run := func(code int, args ...string) (stdout, stderr string) {
		t.Helper()
		out, err := s.Projector(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		if out.Status != code {
			t.Fatalf("projector %s: status %d, want %d\n%s%s", strings.Join(args, " "), out.Status, code, out.Stdout, out.Stderr)
		}
		return string(out.Stdout), string(out.Stderr)
	}
	list := func(args ...string) (found []listedDeadLetter) {
		t.Helper()
		stdout, _ := run(0, append([]string{"deadletters", "list", "--output=json"}, args...)...)
		if err := json.Unmarshal([]byte(stdout), &found); err != nil {
			t.Fatalf("%v\n%s", err, stdout)
		}
		return found
	}
	if stdout, _ := run(1, "status"); !strings.HasPrefix(stdout, "no projector has run on event store ") || !strings.Contains(stdout, "PENSTOCK_STATE_DATABASE") {
		t.Errorf("the status before the first start is\n%s", stdout)
	}
	s.start(1, 1)
	if found := list(); len(found) != 0 {
		t.Errorf("at first there are %+v", found)
	}
	s.insert(counted("one", 1, one), counted("one", 2, bson.D{}), counted("two", 1, bson.D{}), counted("two", 2, one), counted("right", 1, one))
	s.await("two parked aggregates and their dead letters", func() bool {
		return s.parked() == 2 && s.count("right") == "n=1 after event 1" && len(list()) == 2
	})

	found := list("--aggregate=one", "--reason=expression")
	if len(found) != 1 || found[0].AggregateID != "one" || found[0].EventID != 2 || found[0].EventType != "Counted" || len(found[0].Parked) != 1 || found[0].Parked[0] != "counts" || !strings.HasPrefix(found[0].Next, "parked retry") {
		t.Fatalf("listed %+v", found)
	}
	if n := len(list("--limit=1")); n != 1 {
		t.Errorf("%d messages listed, want 1", n)
	}
	if stdout, _ := run(0, "deadletters", "list"); !strings.Contains(stdout, "2 Counted") || strings.Count(stdout, "expression") != 2 {
		t.Errorf("the table is\n%s", stdout)
	}
	if _, stderr := run(2, "deadletters", "discard", "--yes"); !strings.Contains(stderr, "--why is not set") || !strings.Contains(stderr, "no message is chosen") {
		t.Errorf("without a reason: %s", stderr)
	}
	if _, stderr := run(1, "deadletters", "discard", "--aggregate=one", "--why=seen"); !strings.Contains(stderr, "remove 1 dead letter of subscription") || !strings.Contains(stderr, "repeat it with --yes") {
		t.Errorf("without --yes: %s", stderr)
	}
	if n := len(list()); n != 2 {
		t.Errorf("%d dead letters are left before the confirmation", n)
	}
	if stdout, _ := run(0, "deadletters", "discard", "--aggregate=one", "--why=seen", "--yes"); stdout != "removed 1 dead letter\n" {
		t.Errorf("discard printed %s", stdout)
	}
	if found := list(); len(found) != 1 || found[0].AggregateID != "two" || found[0].EventID != 1 {
		t.Errorf("left are %+v", found)
	}
	if parked := s.projectorList("parked", "list"); len(parked) != 2 {
		t.Errorf("parked are %v", parked)
	}
	if audit := s.projectorList("audit"); len(audit) != 1 || audit[0]["command"] != "deadletters discard" || audit[0]["why"] != "seen" {
		t.Errorf("the audit has %v", audit)
	}

	stdout, _ := run(0, "status", "--output=json")
	var status struct {
		Pipelines []struct {
			Pods        []struct{ Serves int }
			Projections []struct {
				Name, State string
				Live        struct{ Generation int64 }
			}
		}
		Parked []struct {
			Projection, Reason string
			Aggregates         int64
		}
		DeadLetters map[string]int
		Unknown     map[string]string
	}
	if err := json.Unmarshal([]byte(stdout), &status); err != nil || len(status.Pipelines) != 1 || len(status.Parked) != 1 {
		t.Fatalf("%v\n%s", err, stdout)
	}
	if p := status.Pipelines[0]; len(p.Pods) != 1 || p.Pods[0].Serves != 1 || len(p.Projections) != 1 || p.Projections[0].State != "live" || p.Projections[0].Live.Generation != 1 ||
		status.Parked[0].Reason != "expression" || status.Parked[0].Aggregates != 2 || len(status.DeadLetters) != 1 || status.DeadLetters["expression"] != 1 || len(status.Unknown) != 0 {
		t.Errorf("the status is\n%s", stdout)
	}
	if stdout, _ := run(0, "status"); !strings.Contains(stdout, "projection counts: live, generation 1 in counts") || !strings.Contains(stdout, "parked in counts, generation 1, expression: 2 aggregates") || !strings.Contains(stdout, "dead letters, expression: 1") {
		t.Errorf("the status is\n%s", stdout)
	}
	// Without the settings of Service Bus, the status shows the rest.
	if stdout, _ := s.projectorCommand(0, "status"); strings.Contains(stdout, "dead letters") || !strings.Contains(stdout, "parked in counts") {
		t.Errorf("without a subscription the status is\n%s", stdout)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if stdout, _ := run(1, "status"); !strings.Contains(stdout, "no-projector: no projector is running") {
		t.Errorf("after the last projector the status is\n%s", stdout)
	}
}
