package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// exhaust receives the messages of events and abandons them until the broker moves them to
// the dead-letter queue, like a receiver that crashes at each of them. The sessions of
// these events must have no other messages.
func (s *scenario) exhaust(events []workload.Event) {
	s.t.Helper()
	sessions := make(map[string]int)
	for i := range events {
		sessions[events[i].AggregateID]++
	}
	bus := s.backend.Bus()
	client := s.busClient()
	for id, messages := range sessions {
		before, err := s.backend.Backlog()
		if err != nil {
			s.t.Fatal(err)
		}
		session, err := client.AcceptSessionForSubscription(s.t.Context(), bus.Topic, bus.Subscription, id, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		s.await(fmt.Sprintf("%d messages of %s in the dead-letter queue", messages, id), func() bool {
			if err := session.RenewSessionLock(s.t.Context(), nil); err != nil {
				s.t.Fatal(err)
			}
			for s.abandon(session) {
			}
			backlog, err := s.backend.Backlog()
			return err == nil && backlog.DeadLettered >= before.DeadLettered+messages
		})
		if err := session.Close(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}

// abandon abandons a message of the session, and reports whether one came within 200 ms.
func (s *scenario) abandon(session *azservicebus.SessionReceiver) bool {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 200*time.Millisecond)
	defer cancel()
	messages, err := session.ReceiveMessages(ctx, 1, nil)
	if ctx.Err() != nil && len(messages) == 0 {
		return false
	}
	if err != nil {
		s.t.Fatal(err)
	}
	for _, m := range messages {
		if err := session.AbandonMessage(s.t.Context(), m, nil); err != nil {
			s.t.Fatal(err)
		}
	}
	return true
}

// TestReadModelsConvergeWhateverTheBrokerLoses covers events whose messages the broker loses,
// expires, or has delivered too often. Sweeps bring the read models up to date, and a
// command removes the dead letters. If ids only increase, nothing but a sweep finds a lost event with a successor.
func TestReadModelsConvergeWhateverTheBrokerLoses(t *testing.T) {
	scene(t, readModelsConvergeWhateverTheBrokerLoses)
}

func readModelsConvergeWhateverTheBrokerLoses(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{}, "PENSTOCK_SEQUENCE=increasing", "PENSTOCK_RECONCILE=off")
	broker := capability[eventLoser](s, "lose and expire events")
	second := func(aggregates ...string) func(string, int64) bool {
		return func(aggregate string, id int64) bool { return id == 2 && slices.Contains(aggregates, aggregate) }
	}
	if err := errors.Join(broker.LoseEvents(second("lost", "skipped")), broker.ExpireEvents(second("expired"))); err != nil {
		t.Fatal(err)
	}
	all := []string{"lost", "skipped", "expired", "undelivered"}
	s.start(1, 1)
	for _, aggregate := range all[:3] {
		s.insert(counted(aggregate, 1, one), counted(aggregate, 2, one))
	}
	s.insert(counted("skipped", 3, one), counted("undelivered", 1, one))
	s.awaitCounts("lost: n=1 after event 1, skipped: n=2 after event 3, expired: n=1 after event 1, undelivered: n=1 after event 1", all...)

	// No projector receives the last message, until the broker dead-letters it.
	s.stopped(s.projectors()[0])
	late := counted("undelivered", 2, one)
	s.insert(late)
	s.awaitPublishedEvents(9)
	s.exhaust([]workload.Event{late})
	s.awaitDeadLetters(2)
	s.SetEnv(quickSweeps)
	s.startProjector(0)
	s.awaitCounts("lost: n=2 after event 2, skipped: n=3 after event 3, expired: n=2 after event 2, undelivered: n=2 after event 2", all...)
	if out, err := s.Projector(t.Context(), "deadletters", "discard", "--applied", "--yes", "--why=folded"); err != nil || string(out.Stdout) != "removed 2 dead letters\n" {
		t.Errorf("discard printed %s%s, %v", out.Stdout, out.Stderr, err)
	}
	s.awaitDeadLetters(0)
}
