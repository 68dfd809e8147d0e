package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// TestProjectorKilledUnderLoad runs over real brokers too, unlike the random histories, in which
// projectors are killed at any moment.
func TestProjectorKilledUnderLoad(t *testing.T) { scene(t, projectorKilledUnderLoad) }

func projectorKilledUnderLoad(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.WithViews(events, 11))
	s.start(1, 2)
	s.load(4 * time.Second)
	for n, share := range []float64{0.2, 0.5} {
		s.awaitPublished(share)
		s.process(fmt.Sprintf("projector-%d", n)).Kill()
		s.startProjector(n)
	}
	s.invariants()
}

// A projector that is killed, and starts again under its identity, knows that its predecessor has
// ended, and ends its registration. Without that, promotions would wait half a minute for it.
func TestProjectorThatRestartsEndsItsRegistration(t *testing.T) {
	needsProcesses(t)
	t.Parallel()
	s := newTallies(t, tally("tallies", "tallies", 1))
	s.env["projector-0"] = []string{"PENSTOCK_IDENTITY=projector-0"}
	s.start(1, 1)
	s.store(3)
	s.complete("tallies", 1)
	registered := func() (pods map[string]time.Time) {
		var found []struct {
			Pod   string    `bson:"_id"`
			Until time.Time `bson:"until"`
		}
		cursor, err := s.state.Collection("projectors").Find(t.Context(), bson.D{{Key: "pipeline", Value: bson.D{{Key: "$exists", Value: true}}}})
		if err == nil {
			err = cursor.All(t.Context(), &found)
		}
		if err != nil {
			t.Fatal(err)
		}
		pods = map[string]time.Time{}
		for _, r := range found {
			pods[r.Pod] = r.Until
		}
		return pods
	}
	for range 2 {
		before := registered()
		s.projectors()[0].Kill()
		killed := time.Now()
		s.startProjector(0)
		s.await("the registrations of the killed processes have ended", func() bool {
			after := registered()
			for pod := range before {
				if after[pod].After(time.Now()) {
					return false
				}
			}
			return len(after) > len(before)
		})
		for pod, until := range before {
			if until.After(killed) && !time.Now().Before(until) {
				t.Errorf("the registration of %s lasted until its end, %v after the kill", pod, until.Sub(killed))
			}
		}
	}
}
