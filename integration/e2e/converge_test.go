package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// tails are the last events of some aggregates. If such a message is lost, no later event
// follows that would reveal the gap.
type tails map[string]int64

func (t tails) match(aggregateID string, eventID int64) bool {
	from, chosen := t[aggregateID]
	return chosen && eventID >= from
}

// chooseTails chooses the last one to three events of orders and items, until n events are
// chosen. It skips aggregates that others contain.
func chooseTails(events []workload.Event, n int, others ...tails) tails {
	last := make(map[string]int64)
	var order []string
	for i := range events {
		ev := &events[i]
		if ev.AggregateType == "User" {
			continue // the aggregate may have no read model
		}
		if last[ev.AggregateID] == 0 {
			order = append(order, ev.AggregateID)
		}
		last[ev.AggregateID] = ev.EventID
	}
	chosen := make(tails)
	for i, id := range order {
		taken := last[id] < 2
		for _, other := range others {
			_, has := other[id]
			taken = taken || has
		}
		if taken {
			continue
		}
		from := max(1, last[id]-int64(i%3))
		chosen[id] = from
		if n -= int(last[id]-from) + 1; n <= 0 {
			break
		}
	}
	return chosen
}

// chooseSkipped chooses the second event of some orders that have later events. The event
// adds an item, so without it the read model is wrong.
func chooseSkipped(events []workload.Event, n int, others ...tails) tails {
	chosen := make(tails)
	for i := range events {
		ev := &events[i]
		if ev.EventID != 4 || ev.AggregateType != "Order" || len(chosen) == n {
			continue
		}
		taken := false
		for _, other := range others {
			_, has := other[ev.AggregateID]
			taken = taken || has
		}
		if !taken {
			chosen[ev.AggregateID] = 2
		}
	}
	return chosen
}

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

// sweeps counts, by projection, the finished sweeps that began after a time.
func (s *scenario) sweeps(after time.Time) map[string]int {
	s.t.Helper()
	finished := make(map[string]int)
	jobs, err := s.Jobs(s.t.Context(), "--kind=reconcile", "--state=done")
	if err != nil {
		s.t.Log(err) // the caller retries
		return finished
	}
	for _, j := range jobs {
		if j.CreatedAt.After(after) {
			finished[j.Projection]++
		}
	}
	return finished
}

// TestReadModelsConvergeWhateverTheBrokerLoses covers the last events of aggregates whose
// messages the broker loses, expires, or has delivered too often. The events are in the
// read models after two sweeps at most, and the dead letters are gone, in both kinds of
// sequence. If ids only increase, lost events with successors are covered too, because only
// sweeps find them.
func TestReadModelsConvergeWhateverTheBrokerLoses(t *testing.T) {
	scenesInParallel(t)
	for _, sequence := range []string{"strict", "increasing"} {
		runScene(t, sequence, func(t *testing.T) {
			t.Helper()
			w := shop.New(6000, 61)
			lost := chooseTails(w.Events, len(w.Events)/100)
			expired := chooseTails(w.Events, 20, lost)
			undelivered := chooseTails(w.Events, 10, lost, expired)
			skipped := chooseSkipped(w.Events, 10, lost, expired, undelivered)
			all := w.Events
			var first, late []workload.Event
			deadLetters := 0
			for _, ev := range all {
				switch {
				case undelivered.match(ev.AggregateID, ev.EventID):
					late = append(late, ev)
					deadLetters++
					continue
				case expired.match(ev.AggregateID, ev.EventID):
					deadLetters++
				}
				first = append(first, ev)
			}
			w.Events = first
			s := newScenarioOn(t, w, harness.TopicOptions{}, "PENSTOCK_SEQUENCE="+sequence, "PENSTOCK_RECONCILE=off")
			broker := capability[eventLoser](s, "lose and expire events")
			if err := broker.LoseEvents(func(aggregateID string, eventID int64) bool {
				return lost.match(aggregateID, eventID) || skipped[aggregateID] == eventID
			}); err != nil {
				t.Fatal(err)
			}
			if err := broker.ExpireEvents(expired.match); err != nil {
				t.Fatal(err)
			}
			s.start(1, 2)
			s.load(3 * time.Second)
			s.finishLoad()
			s.awaitPublished(1)
			wrong := len(lost) + len(expired)
			if sequence == "increasing" {
				wrong += len(skipped)
			}
			s.await(fmt.Sprintf("%d read models behind, and no others", wrong), func() bool {
				backlog, err := s.backend.Backlog()
				return err == nil && backlog.Active == 0 && s.compare().Wrong() == wrong
			})

			// No projector receives the last messages, until the broker dead-letters them.
			for _, process := range s.projectors() {
				s.stopped(process)
			}
			s.insert(late...)
			w.Events = all
			s.awaitPublished(1)
			s.exhaust(late)
			if backlog, err := s.backend.Backlog(); err != nil || backlog != (harness.Backlog{DeadLettered: deadLetters}) {
				t.Fatalf("the broker has %+v (%v), and should have %d dead letters", backlog, err, deadLetters)
			}

			s.SetEnv("PENSTOCK_SEQUENCE="+sequence, "PENSTOCK_RECONCILE=10s")
			begun := time.Now()
			s.startProjector(0)
			s.startProjector(1)
			s.ready()
			s.await("two sweeps of each projection", func() bool {
				finished := s.sweeps(begun)
				return finished["users"] >= 2 && finished["orders"] >= 2 && finished["items"] >= 2
			})
			if report := s.compare(); !report.OK() {
				t.Errorf("%d read models are wrong after two sweeps:\n%s", report.Wrong(), strings.Join(report.Findings, "\n"))
			}
			s.invariants()
		})
	}
}
