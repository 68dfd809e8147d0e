package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/proc"
	"github.com/penstock-cdc/penstock/integration/verify"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// observing is an observer that watches in the background. Its owner stops it.
type observing struct {
	*verify.Observer
	cancel context.CancelFunc
	ended  chan error
}

// observe starts an observer, and returns when it sees every later change.
func (e *environment) observe(ctx context.Context, w *workload.Workload) (*observing, error) {
	ctx, cancel := context.WithCancel(ctx)
	o := &observing{verify.NewObserver(e.client.Database(harness.ReadModelsDatabase), w), cancel, make(chan error, 1)}
	opened := make(chan struct{})
	go func() { o.ended <- o.Run(ctx, func() { close(opened) }) }()
	select {
	case <-opened:
		return o, nil
	case err := <-o.ended:
		cancel()
		return nil, err
	}
}

func (o *observing) stop() error {
	o.cancel()
	return <-o.ended
}

// underLoad stores events while both services work, and measures until all stored events
// are in read models. due returns how many events must be stored after a time, given how
// many are shown; less than 0 ends the load.
func (e *environment) underLoad(ctx context.Context, o *observing, events []workload.Event, due func(elapsed time.Duration, shown int) int) (measured, error) {
	processes := e.pipeline.Running()
	var m meter
	begun := time.Now()
	if err := m.begin(ctx, 0, begun, processes); err != nil {
		return measured{}, err
	}
	stored, err := workload.Feed(ctx, e.store, events, func(elapsed time.Duration) int { return due(elapsed, o.Projected()) }, o.Stored)
	if err != nil {
		return measured{}, err
	}
	if err := proc.Await(ctx, awaitPoll, "all events in read models", func() (bool, error) {
		for _, p := range processes {
			if !p.Running() {
				return false, fmt.Errorf("%s has ended (%w); its log says\n%s", p.Name, p.Err(), logs(processes))
			}
		}
		return o.Projected() >= stored, nil
	}); err != nil {
		return measured{}, fmt.Errorf("%d of %d: %w", o.Projected(), stored, err)
	}
	return m.end(ctx, stored, time.Now())
}
