package e2e_test

import (
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// The drill of docs/regions.md. An alias of Service Bus is pointed to a namespace that does
// not have the last messages. The checkpoint sees no difference, so the publisher continues
// behind the lost events. Read models find a lost event when a later one of its aggregate
// arrives, and republish brings the others, also to other subscribers.
func TestPromotionThatLosesTheLastSeconds(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{}, "PENSTOCK_RECONCILE=off")
	alias := s.standIns("point the alias to another namespace")
	s.start(1, 1)
	s.insert(counted("a", 1, one), counted("b", 1, one))
	s.await("the first read models", func() bool { return s.count("a") == "n=1 after event 1" && s.count("b") == "n=1 after event 1" })

	// Nobody receives the last messages before the region is lost. An event is as old as the
	// second in its _id, so the last ones are of a later second than the first.
	s.stopped(s.process("projector-0"))
	from := time.Now().UTC().Truncate(time.Second).Add(time.Second)
	s.await("the next second", func() bool { return time.Now().After(from) })
	s.insert(counted("a", 2, one), counted("b", 2, one))
	s.awaitPublishedEvents(4)
	s.awaitSaved(s.leader())
	epoch := s.epoch()
	if err := alias.Promote(); err != nil {
		t.Fatal(err)
	}
	s.start(0, 1)

	// A later event of an aggregate shows the gap, and the event store fills it.
	s.insert(counted("a", 3, one))
	s.await("the read model of the aggregate that goes on", func() bool { return s.count("a") == "n=3 after event 3" })
	if n := s.published(); n != 1 {
		t.Errorf("the promoted namespace got %d events, want only the new one: nothing repeats the lost ones", n)
	}
	if got := s.count("b"); got != "n=1 after event 1" {
		t.Errorf("the aggregate without a later event is %s", got)
	}
	if now := s.epoch(); now != epoch {
		t.Errorf("the checkpoint was claimed again: epoch %d, before %d", now, epoch)
	}

	// The procedure: everything since a time before the loss, for all subscribers.
	s.publisherCommand(0, "republish", "--from="+from.Format(time.RFC3339), "--to="+time.Now().UTC().Add(time.Hour).Format(time.RFC3339),
		"--yes", "--why=the drill")
	s.await("the read model of the other aggregate", func() bool { return s.count("b") == "n=2 after event 2" })
	// The event that the namespace had is dropped as a duplicate.
	if n := s.published(); n != 3 {
		t.Errorf("the promoted namespace has %d events, want those of a after 1 and that of b", n)
	}
}
