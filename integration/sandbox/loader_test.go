package sandbox

import (
	"context"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// However fast the events are stored, some are left for the leader that succeeds
// the killed one: it has nothing to show for itself otherwise.
func TestLoaderLeavesEventsForTheSuccessor(t *testing.T) {
	t.Parallel()
	client := mongoemutest.Connect(t, mongoemutest.Start(t, mongoemu.Config{}))

	for n, before := range map[int]int{1: 0, 2: 1, 9: 8, 50: 45} {
		l := &loader{
			events:   client.Database("shop").Collection("events"),
			inserted: func([]workload.Event, time.Time) {}, release: make(chan struct{}),
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.run(ctx, shop.New(n, 1).Events) }()
		poll := time.NewTicker(time.Millisecond)
		for int(l.stored.Load()) < before {
			<-poll.C
		}
		poll.Stop()
		cancel()
		if err := <-ended; err == nil || int(l.stored.Load()) != before {
			t.Errorf("%d of %d events are stored before the leader is killed, not %d (%v)", l.stored.Load(), n, before, err)
		}
		close(l.release)
		if err := l.run(t.Context(), shop.New(n, 1).Events); err != nil || int(l.stored.Load()) != n {
			t.Errorf("%d of %d events are stored in the end (%v)", l.stored.Load(), n, err)
		}
	}
}
