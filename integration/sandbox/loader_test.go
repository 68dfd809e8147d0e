package sandbox

import (
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// However fast the events are stored, some are left for the successor of the killed leader.
// Otherwise the successor could not show that it publishes.
func TestLoaderLeavesEventsForTheSuccessor(t *testing.T) {
	t.Parallel()
	client := mongoemutest.Connect(t, mongoemutest.Start(t, mongoemu.Config{}))

	events := client.Database("shop").Collection("events")
	for n, before := range map[int]int{1: 0, 2: 1, 9: 8, 50: 45} {
		l := &loader{events: events, inserted: func([]workload.Event, time.Time) {}}
		p := loadPart{events: shop.New(n, 1).Events, release: make(chan struct{})}
		ended := make(chan error, 1)
		go func() { ended <- l.run(t.Context(), p) }()
		await(func() bool { return int(l.stored.Load()) == before })
		if due := p.due(time.Hour); due != before {
			t.Errorf("%d of %d events are due before the leader is killed, not %d", due, n, before)
		}
		close(p.release)
		if err := <-ended; err != nil || int(l.stored.Load()) != n {
			t.Errorf("%d of %d events are stored in the end (%v)", l.stored.Load(), n, err)
		}
	}
}

// A slow load stores the rest immediately when its pace no longer matters.
func TestLoaderStoresTheRestAtOnceIfHurried(t *testing.T) {
	t.Parallel()
	client := mongoemutest.Connect(t, mongoemutest.Start(t, mongoemu.Config{}))
	l := &loader{events: client.Database("shop").Collection("events"), inserted: func([]workload.Event, time.Time) {}}
	p := loadPart{events: shop.New(100, 1).Events, over: time.Hour, hurry: make(chan struct{})}
	if due := p.due(30 * time.Minute); due != 50 {
		t.Errorf("%d of 100 events are due after half of the time", due)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.run(t.Context(), p) }()
	close(p.hurry)
	if err := <-ended; err != nil || l.stored.Load() != 100 {
		t.Errorf("%d of 100 events are stored (%v)", l.stored.Load(), err)
	}
}

func await(holds func() bool) {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for !holds() {
		<-poll.C
	}
}
