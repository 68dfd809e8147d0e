package e2e_test

import (
	"testing"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// A publisher whose field name is wrong ends with the reason and with the name that the
// documents have. It quarantines nothing.
func TestWrongFieldNameIsRefusedAtTheStart(t *testing.T) { scene(t, wrongFieldNameIsRefusedAtTheStart) }

func wrongFieldNameIsRefusedAtTheStart(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(2000, 42))
	s.load(0)
	s.finishLoad()
	s.SetEnv("PENSTOCK_FIELD_EVENT_ID=eventNumber")
	s.refused(s.startPublisher(0), "none of the newest events can be read", "missing_event_id: field eventNumber", "set PENSTOCK_FIELD_EVENT_ID", `\"eventId\"`)
	if n := s.documents(s.state.Collection("quarantine")); n != 0 {
		t.Errorf("%d events are in the quarantine", n)
	}
	if n := s.documents(s.state.Collection("checkpoints")); n != 0 {
		t.Errorf("there are %d checkpoints before the first term", n)
	}
	s.SetEnv()
	s.start(1, 1)
	s.invariants()
}
