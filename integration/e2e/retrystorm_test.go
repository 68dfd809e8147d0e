package e2e_test

import (
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

const (
	// steppedDown is the code PrimarySteppedDown, after which a driver retries.
	steppedDown = 189
	// stormSeconds is how long a store fails. maxCommands bounds the commands that all
	// processes of a service send to it in each of these seconds. Without a pause between
	// retries, one command alone becomes tens of thousands.
	stormSeconds = 4
	maxCommands  = 1000
)

// TestURITimeoutCausesNoRetryStorm sets timeoutMS in the connection string of each of the
// three stores. With that setting, the driver retries without a pause.
func TestURITimeoutCausesNoRetryStorm(t *testing.T) { scene(t, uriTimeoutCausesNoRetryStorm) }

func uriTimeoutCausesNoRetryStorm(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(2000, 41))
	store := capability[storeFailer](s, "fail the services' commands")
	// The strings differ, so that each store has a client of its own.
	uri := s.backend.MongoURI() + "&timeoutMS=30000"
	s.SetEnv(
		"PENSTOCK_EVENTS_MONGODB_URI="+uri+"&appName=events",
		"PENSTOCK_STATE_MONGODB_URI="+uri+"&appName=state",
		"PENSTOCK_READMODELS_MONGODB_URI="+uri+"&appName=readmodels",
	)
	s.start(1, 1)
	s.load(time.Second)
	s.awaitPublished(0.2)
	for name, breakStore := range map[string]func(){
		"fails": func() { store.FailStore(steppedDown) },
		"hangs": store.HangStore,
	} {
		publishers, projectors := store.CommandsToStore()
		breakStore()
		begun := time.Now()
		s.await("some seconds of a broken store", func() bool { return time.Since(begun) > stormSeconds*time.Second })
		publishersThen, projectorsThen := store.CommandsToStore()
		store.HealStore()
		seconds := time.Since(begun).Seconds()
		for service, sent := range map[string]int{"publisher": publishersThen - publishers, "projector": projectorsThen - projectors} {
			rate := float64(sent) / seconds
			t.Logf("while the store %s, the %s sends %.1f commands a second", name, service, rate)
			if rate > maxCommands {
				t.Errorf("while the store %s, the %s sends %.0f commands a second", name, service, rate)
			}
		}
	}
	s.invariants()
}
