package workload

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// feedTick is the interval at which the due events are stored.
const feedTick = 5 * time.Millisecond

// maxInsert bounds one insertMany.
const maxInsert = 1000

// Feed stores events in their order, and returns how many: when ctx ends, the batch that has begun
// is stored. due returns how many of them must be stored after a time; less than 0 ends the feed.
// storing is called before each insert, so that a latency which begins there includes the store's
// own time.
func Feed(ctx context.Context, into *mongo.Collection, events []Event, due func(elapsed time.Duration) int, storing func(batch []Event, at time.Time)) (stored int, err error) {
	tick := time.NewTicker(feedTick)
	defer tick.Stop()
	for begun := time.Now(); stored < len(events); {
		until := due(time.Since(begun))
		if until < 0 {
			return stored, nil
		}
		for until = min(until, len(events)); stored < until && ctx.Err() == nil; {
			batch := events[stored:min(until, stored+maxInsert)]
			storing(batch, time.Now())
			if _, err := into.InsertMany(context.WithoutCancel(ctx), batch); err != nil {
				return stored, fmt.Errorf("store the events: %w", err)
			}
			stored += len(batch)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return stored, context.Cause(ctx)
		}
	}
	return stored, nil
}
