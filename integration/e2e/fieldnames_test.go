package e2e_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// awaitRefusal waits until the publisher ends by itself. It checks that the publisher gives
// the reason, names the field that the documents have, and has quarantined nothing.
func (s *scenario) awaitRefusal(publisher *harness.Process, reason, field string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), settleTimeout())
	defer cancel()
	if err := publisher.AwaitExit(ctx); err == nil || crashed(err) {
		s.t.Fatalf("the publisher ended with %v, want status 1", err)
	}
	log, err := os.ReadFile(publisher.Log)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, want := range []string{
		"most events cannot be read", reason, `\"` + field + `\"`,
	} {
		if !strings.Contains(string(log), want) {
			s.t.Errorf("the log does not say %s", want)
		}
	}
	quarantined, err := s.state.Collection("quarantine").CountDocuments(s.t.Context(), bson.D{})
	if err != nil || quarantined != 0 {
		s.t.Errorf("%d events are in the quarantine: %v", quarantined, err)
	}
}

func TestWrongFieldNameIsRefusedAtTheStart(t *testing.T) { scene(t, wrongFieldNameIsRefusedAtTheStart) }

func wrongFieldNameIsRefusedAtTheStart(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(2000, 42))
	s.load(0)
	s.finishLoad()
	s.SetEnv("PENSTOCK_FIELD_EVENT_ID=eventNumber")
	s.awaitRefusal(s.startPublisher(0), `missing_event_id in field \"eventNumber\" (PENSTOCK_FIELD_EVENT_ID)`, "eventId")

	if n, err := s.state.Collection("checkpoints").CountDocuments(t.Context(), bson.D{}); err != nil || n != 0 {
		t.Errorf("there are %d checkpoints before the first term: %v", n, err)
	}
	s.SetEnv()
	s.start(1, 1)
	s.invariants()
}

// The store is empty when the publisher starts, so only later events show the wrong name.
func TestWrongFieldNameStopsARunningPublisher(t *testing.T) {
	scene(t, wrongFieldNameStopsARunningPublisher)
}

func wrongFieldNameStopsARunningPublisher(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(2000, 43))
	s.SetEnv("PENSTOCK_FIELD_EVENT_TYPE=kind")
	publisher := s.startPublisher(0)
	s.ready()
	// The first term has saved a token of the empty stream.
	s.awaitSaved(publisher)
	s.load(0)
	s.finishLoad()
	s.awaitRefusal(publisher, `missing_event_type in field \"kind\" (PENSTOCK_FIELD_EVENT_TYPE)`, "eventType")

	// An event would be missing here if the checkpoint had moved past it.
	s.SetEnv()
	s.start(1, 1)
	s.invariants()
}
