package e2e_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// A projector whose stores do not answer is not ready. /readyz and the log say what it
// waits for, even before the first attempt has failed.
func TestProjectorSaysWhatItWaitsFor(t *testing.T) { scene(t, projectorSaysWhatItWaitsFor) }

func projectorSaysWhatItWaitsFor(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(200, 61))
	store := capability[storeFailer](s, "delay the store's answers")
	store.HangStore()
	projector := s.startProjector(0)
	const waits = "reach the read models at"
	s.await("a /readyz that says what the projector waits for", func() bool {
		status, text := readiness(t, projector)
		return status == http.StatusServiceUnavailable && strings.Contains(text, waits)
	})
	s.await("a line in the log", func() bool {
		log, err := os.ReadFile(projector.Log)
		return err == nil && strings.Contains(string(log), `"waitsTo":"`+waits)
	})
	store.HealStore()
	s.startPublisher(0)
	s.load(time.Second)
	s.invariants()
}
