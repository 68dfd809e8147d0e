package e2e_test

import (
	"fmt"
	"testing"
	"time"

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
