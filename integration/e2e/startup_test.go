package e2e_test

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// A projector whose stores do not answer is not ready. /readyz and the log say what it
// waits for, even before the first attempt has failed.
func TestProjectorSaysWhatItWaitsFor(t *testing.T) {
	inParallel(t)
	s := newScenario(t, shop.New(200, 61))
	store := capability[storeFailer](s, "delay the store's answers")
	store.HangStore()
	projector := s.startProjector(0)
	const waits = "reach the read models at"
	s.await("a /readyz that says what the projector waits for", func() bool {
		response, err := http.Get("http://" + projector.Admin + "/readyz")
		if err != nil { // the process does not listen yet
			return false
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return err == nil && response.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(text), waits)
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
