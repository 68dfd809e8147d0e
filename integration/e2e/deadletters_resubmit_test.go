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
	"github.com/penstock-cdc/penstock/integration/workload"
)

// resubmission is the output of `projector deadletters resubmit`.
type resubmission struct {
	Removed int
	Kept    []struct {
		Sequence, EventID        int64
		Reason, AggregateID, Why string
	}
}

// resubmit runs the command and decodes its result.
func (s *scenario) resubmit(code int, args ...string) (result resubmission) {
	s.t.Helper()
	out, err := s.Projector(s.t.Context(), append([]string{"deadletters", "resubmit", "--output=json"}, args...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	if out.Status != code {
		s.t.Fatalf("resubmit %s: status %d, want %d\n%s%s", strings.Join(args, " "), out.Status, code, out.Stdout, out.Stderr)
	}
	if err := json.Unmarshal(out.Stdout, &result); err != nil {
		s.t.Fatalf("%v\n%s%s", err, out.Stdout, out.Stderr)
	}
	return result
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

// setAside moves the next message of a session to the dead-letter queue, as an operator's
// tool does.
func (s *scenario) setAside(client *azservicebus.Client, session, reason string) {
	s.t.Helper()
	bus := s.backend.Bus()
	receiver, err := client.AcceptSessionForSubscription(s.t.Context(), bus.Topic, bus.Subscription, session, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	messages, err := receiver.ReceiveMessages(s.t.Context(), 1, nil)
	if err == nil && len(messages) != 1 {
		err = fmt.Errorf("received %d messages", len(messages))
	}
	if err == nil {
		err = receiver.DeadLetterMessage(s.t.Context(), messages[0], &azservicebus.DeadLetterOptions{Reason: &reason})
	}
	if err == nil {
		err = receiver.Close(s.t.Context())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestDeadLettersAreResubmitted checks that an operator can apply the events of dead
// letters again, whatever the reason of the dead letters. The events come from the event
// store in order, and no message goes to other subscriptions of the topic. The command
// removes a message only if every read model has its event, and says why the others stay.
func TestDeadLettersAreResubmitted(t *testing.T) {
	scenesInParallel(t)
	for _, sequence := range []string{"strict", "increasing"} {
		runScene(t, sequence, func(t *testing.T) {
			t.Helper()
			// Without sweeps, only the command brings the read models up to date.
			s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{}, "PENSTOCK_SEQUENCE="+sequence, "PENSTOCK_RECONCILE=off")
			client := s.busClient()
			s.start(1, 1)
			if result := s.resubmit(0, "--reason=by hand", "--yes", "--why=nothing"); result.Removed != 0 || result.Kept == nil {
				t.Errorf("of an empty queue: %+v", result)
			}
			s.insert(counted("given-up", 1, one), counted("aside", 1, one), counted("corrected", 1, one), counted("broken", 1, one))
			s.insert(counted("corrected", 2, bson.D{}), counted("broken", 2, bson.D{}))
			s.awaitDeadLetters(2)
			sender, err := client.NewSender(s.backend.Bus().Topic, nil)
			if err != nil {
				t.Fatal(err)
			}
			session, id := "stranger", "stranger-1"
			if err := sender.SendMessage(t.Context(), &azservicebus.Message{MessageID: &id, SessionID: &session, Body: []byte("hello")}, nil); err != nil {
				t.Fatal(err)
			}
			s.awaitDeadLetters(3)
			s.await("the first events applied", func() bool {
				return s.count("given-up") == "n=1 after event 1" && s.count("aside") == "n=1 after event 1"
			})
			s.stopped(s.projectors()[0])

			// The broker dead-letters two messages, and an operator one.
			givenUp := []workload.Event{counted("given-up", 2, one), counted("deleted", 1, one)}
			s.insert(append(givenUp, counted("aside", 2, one))...)
			s.awaitPublishedEvents(10)
			s.exhaust(givenUp)
			s.setAside(client, "aside", "somebody looks at it")
			s.awaitDeadLetters(6)
			if _, err := s.events.DeleteOne(t.Context(), bson.D{{Key: "aggregateId", Value: "deleted"}}); err != nil {
				t.Fatal(err)
			}
			s.startProjector(0)
			s.ready()
			// If ids only increase, this event is applied without the lost one.
			s.insert(counted("given-up", 3, one))
			want := map[string]string{"strict": "n=3 after event 3", "increasing": "n=2 after event 3"}[sequence]
			s.await("the next event applied", func() bool { return s.count("given-up") == want })
			if _, err := s.events.UpdateOne(t.Context(), bson.D{{Key: "aggregateId", Value: "corrected"}, {Key: "eventId", Value: 2}},
				bson.D{{Key: "$set", Value: bson.D{{Key: "payload", Value: one}}}}); err != nil {
				t.Fatal(err)
			}
			published := s.published()

			out, err := s.Projector(t.Context(), "deadletters", "resubmit")
			if err != nil || out.Status != 1 || !strings.Contains(string(out.Stderr), "bring the read models of 5 aggregates up to date from the event store, of which 2 parked, and remove 5 dead letters") ||
				!strings.Contains(string(out.Stderr), "repeat it with --yes") {
				t.Fatalf("without --yes: status %d, %v\n%s%s", out.Status, err, out.Stdout, out.Stderr)
			}
			if got := s.count("aside"); got != "n=1 after event 1" {
				t.Errorf("before the confirmation, the read model is %s", got)
			}
			if r := s.resubmit(0, "--aggregate=aside", "--yes", "--why=looked at"); r.Removed != 1 || len(r.Kept) != 0 {
				t.Errorf("one aggregate: %+v", r)
			}
			if got := s.count("aside"); got != "n=2 after event 2" {
				t.Errorf("aside: %s", got)
			}
			if r := s.resubmit(0, "--reason=MaxDeliveryCountExceeded", "--aggregate=given-up", "--yes"); r.Removed != 1 || len(r.Kept) != 0 {
				t.Errorf("one reason: %+v", r)
			}
			if got := s.count("given-up"); got != "n=3 after event 3" {
				t.Errorf("given-up: %s", got)
			}
			r := s.resubmit(1, "--yes")
			why := map[string]string{"broken": "parked in projection counts", "deleted": "the event store has no readable event 1", "": "it is not an event"}
			if r.Removed != 1 || len(r.Kept) != len(why) {
				t.Errorf("the rest: %+v", r)
			}
			for _, k := range r.Kept {
				if expected := why[k.AggregateID]; expected == "" || !strings.Contains(k.Why, expected) {
					t.Errorf("%q stays, because %s", k.AggregateID, k.Why)
				}
			}
			if got := s.count("corrected"); got != "n=2 after event 2" {
				t.Errorf("corrected: %s", got)
			}
			if got := s.count("broken"); got != "n=1 after event 1" {
				t.Errorf("broken: %s", got)
			}
			s.awaitDeadLetters(3)
			if n := s.published(); n != published {
				t.Errorf("%d messages were sent to the topic: its other subscriptions would get them", n-published)
			}
			if r := s.resubmit(1, fmt.Sprintf("--sequence-number=%d", r.Kept[0].Sequence), "--yes", "--wait=0s"); len(r.Kept) != 1 || r.Removed != 0 {
				t.Errorf("one message: %+v", r)
			}
		})
	}
}

// TestResubmittingCanBeRepeatedAfterAKill kills the command, and locks its messages by
// another receiver. Neither loses anything: the messages are still there, and repeating the
// command finishes the work.
func TestResubmittingCanBeRepeatedAfterAKill(t *testing.T) {
	scene(t, resubmittingCanBeRepeatedAfterAKill)
}

func resubmittingCanBeRepeatedAfterAKill(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{}, "PENSTOCK_RECONCILE=off")
	client := s.busClient()
	s.start(1, 1)
	s.insert(counted("a", 1, bson.D{}), counted("b", 1, one))
	s.awaitDeadLetters(1)
	s.await("the parked aggregate", func() bool { return s.parked() == 1 })
	if _, err := s.events.UpdateOne(t.Context(), bson.D{{Key: "aggregateId", Value: "a"}}, bson.D{{Key: "$set", Value: bson.D{{Key: "payload", Value: one}}}}); err != nil {
		t.Fatal(err)
	}
	s.stopped(s.projectors()[0])

	// No projector runs that could resume the aggregate. The command waits, and is killed.
	dying, kill := context.WithCancel(t.Context())
	died := make(chan error, 1)
	go func() {
		_, err := s.Projector(dying, "deadletters", "resubmit", "--yes", "--wait=10m")
		died <- err
	}()
	s.await("the aggregate handed to the projectors", func() bool {
		return s.parked(bson.E{Key: "retryAt", Value: bson.D{{Key: "$exists", Value: true}}}) == 1
	})
	kill()
	if err := <-died; err == nil {
		t.Fatal("the command ended before it was killed")
	}
	if audit := s.projectorList("audit"); len(audit) != 1 || audit[0]["command"] != "deadletters resubmit" || audit[0]["outcome"] != "begun" {
		t.Errorf("the audit has %v", audit)
	}
	s.awaitDeadLetters(1)

	// Another receiver holds the lock of the message.
	s.startProjector(0)
	s.ready()
	bus := s.backend.Bus()
	other, err := client.NewReceiverForSubscription(bus.Topic, bus.Subscription, &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), settleTimeout())
	defer cancel()
	locked, err := other.ReceiveMessages(ctx, 1, nil)
	if err != nil || len(locked) != 1 {
		t.Fatalf("%d messages received: %v", len(locked), err)
	}
	if r := s.resubmit(1, "--yes"); r.Removed != 0 || len(r.Kept) != 1 || !strings.Contains(r.Kept[0].Why, "another receiver has locked it") {
		t.Errorf("with a locked message: %+v", r)
	}
	if got := s.count("a"); got != "n=1 after event 1" {
		t.Errorf("a: %s", got)
	}
	if err := other.AbandonMessage(t.Context(), locked[0], nil); err != nil {
		t.Fatal(err)
	}
	if r := s.resubmit(0, "--yes"); r.Removed != 1 || len(r.Kept) != 0 {
		t.Errorf("repeated: %+v", r)
	}
	s.awaitDeadLetters(0)
}

// awaitDeadLetters waits until n messages are in the dead-letter queue.
func (s *scenario) awaitDeadLetters(n int) {
	s.t.Helper()
	s.await(fmt.Sprintf("%d dead letters", n), func() bool {
		backlog, err := s.backend.Backlog()
		return err == nil && backlog.DeadLettered == n
	})
}
