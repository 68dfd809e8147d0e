package kube_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/workload"
)

// loadRate is the load of every test, in events per second.
const loadRate = 200

// load stores events at a steady rate.
type load struct {
	stop context.CancelFunc
	// ended is closed when the load has stopped; stored may be read after that.
	ended  chan struct{}
	stored []workload.Event
}

// startLoad stores events until it is stopped.
func startLoad(t *testing.T, into *mongo.Collection, events []workload.Event) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{stop: stop, ended: make(chan struct{})}
	due := func(elapsed time.Duration) int { return int(loadRate * elapsed.Seconds()) }
	go func() {
		defer close(l.ended)
		stored, err := workload.Feed(ctx, into, events, due, func([]workload.Event, time.Time) {})
		if ctx.Err() == nil {
			t.Errorf("the load ended after %d events: %v", stored, err)
		}
		l.stored = events[:stored]
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
