package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// If no message can be read, nothing is dead-lettered. The projector says why. After a
// restart with the right settings, every read model is right.
func TestWrongProjectorDeadLettersNothing(t *testing.T) { scene(t, wrongProjectorDeadLettersNothing) }

func wrongProjectorDeadLettersNothing(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, shop.New(2000, 51), harness.TopicOptions{}, "PENSTOCK_FIELD_AGGREGATE_ID=aggregate")
	s.start(1, 1)
	s.load(time.Second)
	projector := s.started[len(s.started)-1]
	s.await("a projector that is not ready", func() bool {
		status, _ := readiness(t, projector)
		return status == http.StatusServiceUnavailable
	})
	s.awaitPublished(0.8)
	_, said := readiness(t, projector)
	for _, want := range []string{
		"no message of topic", "missing_aggregate_id: field aggregate.", `Check PENSTOCK_FIELD_AGGREGATE_ID, which is "aggregate"`,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the projector does not say %q:\n%s", want, said)
		}
	}
	if status, text := get(t, projector, "/livez"); status != http.StatusOK {
		t.Errorf("/livez answers %d: %s", status, text)
	}
	if backlog, err := s.backend.Backlog(); err != nil || backlog.DeadLettered != 0 {
		t.Errorf("%d messages are dead-lettered (%v), not 0", backlog.DeadLettered, err)
	}
	if n := s.parked(); n != 0 {
		t.Errorf("%d aggregates are parked, not 0", n)
	}
	s.stopped(projector)
	s.SetEnv("PENSTOCK_FIELD_AGGREGATE_ID=aggregateId")
	s.startProjector(0)
	s.invariants()
}

// Twelve junk messages, and then twelve events that a projection cannot apply, stop nobody
// else, neither when they arrive nor after a restart. The junk waits until the projector has
// read one event, because the settings may be wrong. The aggregates of the failing events are
// parked, and are right when the projection is corrected.
func TestBadInputStopsNobodyElse(t *testing.T) { scene(t, badInputStopsNobodyElse) }

func badInputStopsNobodyElse(t *testing.T) {
	t.Helper()
	const bad = 12
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	s.start(1, 1)
	projector := s.started[len(s.started)-1]
	sender, err := s.busClient().NewSender(s.backend.Bus().Topic, nil)
	if err != nil {
		t.Fatal(err)
	}
	junk := make([]*azservicebus.Message, bad)
	for i := range junk {
		id := fmt.Sprint("junk-", i)
		junk[i] = &azservicebus.Message{SessionID: &id, MessageID: &id, Body: []byte("{}")}
		if err := sender.SendMessage(t.Context(), junk[i], nil); err != nil {
			t.Fatal(err)
		}
	}
	s.await("a projector that is not ready, because it could not read any message", func() bool {
		status, text := readiness(t, projector)
		return status == http.StatusServiceUnavailable && strings.Contains(text, "no message of topic")
	})

	var failing, neighbours []workload.Event
	for i := range bad {
		failing = append(failing, counted(fmt.Sprint("failing-", i), 1, bson.D{{Key: "n", Value: "7"}}))
		neighbours = append(neighbours, counted(fmt.Sprint("neighbour-", i), 1, one))
	}
	right := func(prefix, want string) func() bool {
		return func() bool {
			for i := range bad {
				if s.count(fmt.Sprint(prefix, i)) != want {
					return false
				}
			}
			return true
		}
	}
	s.insert(failing...)
	failed := bson.E{Key: "reason", Value: "operation"}
	s.await("all failing aggregates parked", func() bool { return s.parked(failed) == bad })
	s.insert(neighbours...)
	s.await("the neighbours right", right("neighbour-", "n=1 after event 1"))
	s.awaitDeadLetters(bad)
	s.ready()

	s.stopped(projector)
	projector = s.startProjector(0)
	for i := range bad {
		neighbours[i] = counted(fmt.Sprint("neighbour-", i), 2, one)
	}
	s.insert(neighbours...)
	s.await("the neighbours right after a restart", right("neighbour-", "n=2 after event 2"))
	s.ready()
	if n := s.parked(failed); n != bad {
		t.Errorf("%d aggregates are parked because their event fails, want %d", n, bad)
	}

	s.stopped(projector)
	s.SetEnv("PENSTOCK_PROJECTIONS=" + s.projectionsFile(strings.Replace(countsProjection, "payload.n", "int(payload.n)", 1)))
	s.startProjector(0)
	s.await("the failing aggregates right", right("failing-", "n=7 after event 1"))
	s.await("no parked aggregate", func() bool { return s.parked(failed) == 0 })
}
