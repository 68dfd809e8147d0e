package sandbox

import (
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// However fast the events are stored, some are left for the successor of the killed leader.
// Otherwise the successor could not show that it publishes.
func TestLoadLeavesEventsForTheSuccessor(t *testing.T) {
	t.Parallel()
	for n, before := range map[int]int{1: 0, 2: 1, 9: 8, 50: 45} {
		p := loadPart{events: shop.New(n, 1).Events, release: make(chan struct{})}
		if due := p.due(time.Hour); due != before {
			t.Errorf("%d of %d events are due before the leader is killed, not %d", due, n, before)
		}
		close(p.release)
		if due := p.due(0); due != n {
			t.Errorf("%d of %d events are due in the end", due, n)
		}
	}
}

// A slow load stores the rest immediately when its pace no longer matters.
func TestLoadStoresTheRestAtOnceIfHurried(t *testing.T) {
	t.Parallel()
	p := loadPart{events: shop.New(100, 1).Events, over: time.Hour, hurry: make(chan struct{})}
	if due := p.due(30 * time.Minute); due != 50 {
		t.Errorf("%d of 100 events are due after half of the time", due)
	}
	close(p.hurry)
	if due := p.due(0); due != 100 {
		t.Errorf("%d of 100 events are due", due)
	}
}
