package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
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
