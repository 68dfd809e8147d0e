package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/virtual"
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
	s.insert(counted("right", 1, one), counted("wrong", 1, bson.D{}))
	s.await("a read model, and a parked aggregate", func() bool { return s.parked() == 1 && s.count("right") == "n=1 after event 1" })
	sender, err := s.busClient().NewSender(s.backend.Bus().Topic, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"one", "two"} {
		if err := sender.SendMessage(t.Context(), &azservicebus.Message{SessionID: &id, MessageID: &id, Body: []byte("{}")}, nil); err != nil {
			t.Fatal(err)
		}
	}
	s.await("two dead letters", func() bool { return len(list()) == 2 })

	found := list("--reason=InvalidMessageFormat")
	if len(found) != 2 || found[0].AggregateID != "" || len(found[0].Parked) != 0 || !strings.HasPrefix(found[0].Next, "deadletters discard: it is not an event") {
		t.Fatalf("listed %+v", found)
	}
	if n := len(list("--limit=1")); n != 1 {
		t.Errorf("%d messages listed, want 1", n)
	}
	if stdout, _ := run(0, "deadletters", "list"); strings.Count(stdout, "InvalidMessageFormat") != 2 {
		t.Errorf("the table is\n%s", stdout)
	}
	if _, stderr := run(2, "deadletters", "discard", "--yes"); !strings.Contains(stderr, "--why is not set") || !strings.Contains(stderr, "no message is chosen") {
		t.Errorf("without a reason: %s", stderr)
	}
	if _, stderr := run(1, "deadletters", "discard", fmt.Sprint("--sequence-number=", found[0].Sequence), "--why=seen"); !strings.Contains(stderr, "remove 1 dead letter of subscription") || !strings.Contains(stderr, "repeat it with --yes") {
		t.Errorf("without --yes: %s", stderr)
	}
	if n := len(list()); n != 2 {
		t.Errorf("%d dead letters are left before the confirmation", n)
	}
	if stdout, _ := run(0, "deadletters", "discard", fmt.Sprint("--sequence-number=", found[0].Sequence), "--why=seen", "--yes"); stdout != "removed 1 dead letter\n" {
		t.Errorf("discard printed %s", stdout)
	}
	if left := list(); len(left) != 1 || left[0].Sequence != found[1].Sequence {
		t.Errorf("left are %+v", left)
	}
	if stdout, _ := run(0, "deadletters", "list", "--aggregate=nobody"); strings.Contains(stdout, "InvalidMessageFormat") {
		t.Errorf("the dead letters of an aggregate without any are\n%s", stdout)
	}
	if _, stderr := run(1, "deadletters", "discard", "--aggregate=nobody", "--why=seen", "--yes"); !strings.Contains(stderr, "no dead letter matches") {
		t.Errorf("discarding the dead letters of an aggregate without any says\n%s", stderr)
	}
	if _, stderr := run(1, "deadletters", "discard", "--applied", "--why=seen", "--yes"); !strings.Contains(stderr, "no dead letter matches") {
		t.Errorf("of messages that are not events: %s", stderr)
	}
	if parked := s.projectorList("parked", "list"); len(parked) != 1 {
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
		status.Parked[0].Reason != "expression" || status.Parked[0].Aggregates != 1 || len(status.DeadLetters) != 1 || status.DeadLetters["InvalidMessageFormat"] != 1 || len(status.Unknown) != 0 {
		t.Errorf("the status is\n%s", stdout)
	}
	if stdout, _ := run(0, "status"); !strings.Contains(stdout, "projection counts: live, generation 1 in counts") || !strings.Contains(stdout, "parked in counts, generation 1, expression: 1 aggregate") || !strings.Contains(stdout, "dead letters, InvalidMessageFormat: 1") {
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

// busClient is a client of the SDK for the scenario's broker.
func (s *scenario) busClient() *azservicebus.Client {
	s.t.Helper()
	options := new(azservicebus.ClientOptions)
	if b, ok := s.backend.(*virtualBackend); ok {
		options.NewWebSocketConn = func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
			return b.dialer(virtual.ServiceBus).Dial(ctx)
		}
	}
	client, err := azservicebus.NewClientFromConnectionString(s.backend.Bus().ConnectionString, options)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

// awaitDeadLetters waits until the dead-letter queue has n messages.
func (s *scenario) awaitDeadLetters(n int) {
	s.t.Helper()
	s.await(fmt.Sprintf("%d dead letters", n), func() bool {
		backlog, err := s.backend.Backlog()
		return err == nil && backlog.DeadLettered == n
	})
}
