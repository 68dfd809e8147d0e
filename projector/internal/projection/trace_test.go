package projection_test

import (
	"testing"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// TestFoldWithoutTraceAllocatesNoMore checks that the hook for explanations adds no
// allocations to the engine: the bound is the number of allocations before the hook
// existed.
func TestFoldWithoutTraceAllocatesNoMore(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes pools give away what they hold")
	}
	p := projectiontest.One(t, projectiontest.Orders)
	events := make([]*event.Event, 50)
	for i := range events {
		events[i] = projectiontest.Event(int64(i+1), "ItemAdded", `{"customer":"Jane Doe","sku":"s","quantity":2,"price":1999}`)
	}
	allocs := testing.AllocsPerRun(20, func() {
		if f := p.Fold(nil, events); f.Err != nil {
			t.Fatal(f.Err)
		}
	})
	if perEvent := allocs / float64(len(events)); perEvent > 42.5 {
		t.Errorf("an event costs %.2f allocations", perEvent)
	}
}
