package sandbox

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/workload"
)

// loadTick is how often the loader stores what is due.
const loadTick = 20 * time.Millisecond

// maxInsert bounds one insertMany.
const maxInsert = 1000

// loader stores a workload's events in their order, spread evenly over a time. The
// last tenth, at least one, waits for release to be closed, so that a leader who
// comes then has something to publish.
type loader struct {
	events   *mongo.Collection
	over     time.Duration // 0: as fast as the store takes them
	inserted func(batch []workload.Event, at time.Time)
	release  chan struct{}
	stored   atomic.Int64
}

// run returns when all events are stored.
func (l *loader) run(ctx context.Context, events []workload.Event) error {
	start := time.Now()
	held := len(events) - max(1, len(events)/10)
	tick := time.NewTicker(loadTick)
	defer tick.Stop()
	for next := 0; next < len(events); {
		due := len(events)
		if elapsed := time.Since(start); elapsed < l.over {
			due = int(int64(len(events)) * int64(elapsed) / int64(l.over))
		}
		select {
		case <-l.release:
		default:
			due = min(due, held)
		}
		for next < due {
			batch := events[next:min(due, next+maxInsert)]
			// Counted from before the insert: a latency includes the store's own.
			l.inserted(batch, time.Now())
			if _, err := l.events.InsertMany(ctx, batch); err != nil {
				return fmt.Errorf("store the events: %w", err)
			}
			next += len(batch)
			l.stored.Store(int64(next))
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
