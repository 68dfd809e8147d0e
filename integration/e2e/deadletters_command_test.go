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

// TestDeadLettersAreListedAndDiscarded checks that an operator sees the dead-letter queue
// and removes exactly the chosen messages. Parked aggregates stay parked. The status shows
// all of it.
func TestDeadLettersAreListedAndDiscarded(t *testing.T) { scene(t, deadLettersAreListedAndDiscarded) }

func deadLettersAreListedAndDiscarded(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	// run runs a command with the settings of the projectors, Service Bus included.
	run := func(code int, says string, args ...string) (stdout string) {
		t.Helper()
		out, err := s.Projector(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		if all := string(out.Stdout) + string(out.Stderr); out.Status != code || !strings.Contains(all, says) {
			t.Fatalf("projector %s: status %d, want %d and %q\n%s", strings.Join(args, " "), out.Status, code, says, all)
		}
		return string(out.Stdout)
	}
	list := func(flags ...string) (found []struct {
		Sequence          int64
		AggregateID, Next string
	}) {
		t.Helper()
		stdout := run(0, "", append([]string{"deadletters", "list", "--output=json"}, flags...)...)
		if err := json.Unmarshal([]byte(stdout), &found); err != nil {
			t.Fatalf("%v\n%s", err, stdout)
		}
		return found
	}
	run(1, "no projection of event store ", "status")
	s.start(1, 1)
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
	if len(found) != 2 || found[0].AggregateID != "" || !strings.HasPrefix(found[0].Next, "deadletters discard: it is not an event") {
		t.Fatalf("listed %+v", found)
	}
	if first, nobodys := len(list("--limit=1")), len(list("--aggregate=nobody")); first != 1 || nobodys != 0 {
		t.Errorf("listed %d with a limit of 1, and %d of nobody", first, nobodys)
	}
	first := fmt.Sprint("--sequence-number=", found[0].Sequence)
	run(2, "--why is not set", "deadletters", "discard", "--yes")
	run(1, "remove 1 dead letter of subscription", "deadletters", "discard", first, "--why=seen")
	run(1, "no dead letter matches", "deadletters", "discard", "--aggregate=nobody", "--why=seen", "--yes")
	run(1, "no dead letter matches", "deadletters", "discard", "--applied", "--why=seen", "--yes")
	run(0, "removed 1 dead letter\n", "deadletters", "discard", first, "--why=seen", "--yes")
	if left := list(); len(left) != 1 || left[0].Sequence != found[1].Sequence {
		t.Errorf("left are %+v", left)
	}
	if audit := s.projectorList("audit"); len(audit) != 1 || audit[0]["command"] != "deadletters discard" || audit[0]["why"] != "seen" {
		t.Errorf("the audit has %v", audit)
	}

	const parked = "parked, expression: 1 aggregate in counts (generation 1)"
	status := run(0, parked, "status")
	for _, text := range []string{"projection counts: live, generation 1 in counts", "dead letters, InvalidMessageFormat: 1"} {
		if !strings.Contains(status, text) {
			t.Errorf("the status does not say %q:\n%s", text, status)
		}
	}
	run(0, `"InvalidMessageFormat": 1`, "status", "--output=json")
	// Without the settings of Service Bus, the status shows the rest.
	if stdout, _ := s.projectorCommand(0, "status"); strings.Contains(stdout, "dead letters") || !strings.Contains(stdout, parked) {
		t.Errorf("without a subscription the status is\n%s", stdout)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(1, "no-projector: no projector is running", "status")
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
