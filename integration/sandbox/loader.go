package sandbox

import (
	"context"
	"time"

	"github.com/penstock-cdc/penstock/integration/workload"
)

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

// load stores the events of a part, and returns when all of them are stored.
func (r *run) load(ctx context.Context, p loadPart) error {
	_, err := workload.Feed(ctx, r.events, p.events, p.due, func(batch []workload.Event, at time.Time) {
		r.observer.Stored(batch, at)
		r.monitor.stored.Add(int64(len(batch)))
	})
	return err
}
