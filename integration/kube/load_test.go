package kube_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/workload"
)

// The load of every test: 200 events per second.
const (
	loadTick  = 20 * time.Millisecond
	loadBatch = 4
)

// load stores events at a steady rate.
type load struct {
	stop context.CancelFunc
	// ended is closed when the load has stopped; stored may be read after that.
	ended  chan struct{}
	stored []workload.Event
}

// startLoad stores events until it is stopped or all events are stored.
func startLoad(t *testing.T, into *mongo.Collection, events []workload.Event) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		tick := time.NewTicker(loadTick)
		defer tick.Stop()
		for n := 0; n < len(events); n += loadBatch {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			batch := events[n:min(n+loadBatch, len(events))]
			// A begun batch is stored completely, so that the stored events are known.
			if _, err := into.InsertMany(context.WithoutCancel(ctx), batch); err != nil {
				t.Errorf("store the events: %v", err)
				return
			}
			l.stored = events[:n+len(batch)]
		}
		t.Error("the load ran out of events")
	}()
	t.Cleanup(func() { l.end() })
	return l
}

// end stops the load and returns what was stored.
func (l *load) end() []workload.Event {
	l.stop()
	<-l.ended
	return l.stored
}
