package sandbox

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/workload"
)

// loadTick is the interval at which the loader stores the due events.
const loadTick = 20 * time.Millisecond

// maxInsert bounds one insertMany.
const maxInsert = 1000

// loader stores a workload's events in their order.
type loader struct {
	events   *mongo.Collection
	inserted func(batch []workload.Event, at time.Time)
	stored   atomic.Int64
}

// loadPart is a part of a workload's events, spread evenly over a time. The last tenth, at
// least one event, waits until release is closed. So a leader that starts then has events
// to publish.
type loadPart struct {
	events  []workload.Event
	over    time.Duration // 0: as fast as the store takes them
	release chan struct{} // nil: no event waits
	hurry   chan struct{} // when it is closed, the rest is stored immediately; nil: never
}

// due returns how many of the events must be stored after a time.
func (p *loadPart) due(elapsed time.Duration) int {
	due := len(p.events)
	if elapsed < p.over && !closed(p.hurry) {
		due = int(int64(due) * int64(elapsed) / int64(p.over))
	}
	if p.release != nil && !closed(p.release) {
		due = min(due, len(p.events)-max(1, len(p.events)/10))
	}
	return due
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// run stores the events, and returns when all of them are stored.
func (l *loader) run(ctx context.Context, p loadPart) error {
	start := time.Now()
	events := p.events
	tick := time.NewTicker(loadTick)
	defer tick.Stop()
	for next := 0; next < len(events); {
		due := p.due(time.Since(start))
		for next < due {
			batch := events[next:min(due, next+maxInsert)]
			// Measure from before the insert, so that a latency includes the store's own
			// time.
			l.inserted(batch, time.Now())
			if _, err := l.events.InsertMany(ctx, batch); err != nil {
				return fmt.Errorf("store the events: %w", err)
			}
			next += len(batch)
			l.stored.Add(int64(len(batch)))
		}
		if next == len(events) {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
