package publish

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// beatInterval is the time between two heartbeats.
	beatInterval = time.Second
	// callGrace is how much longer than its timeout a call into the SDK may take before
	// it counts as stuck: the SDK returns late from some calls.
	callGrace = 30 * time.Second
)

// activity shows whether the calls into the SDK return. Every call has a timeout, so a call
// that lasts longer is stuck. An outage, a throttled broker and back-pressure end calls.
type activity struct {
	longest time.Duration
	stuck   atomic.Int64 // calls
}

// begin notes that a call into the SDK begins. The caller calls end when it has returned.
func (a *activity) begin() (end func()) {
	late := time.AfterFunc(a.longest, func() { a.stuck.Add(1) })
	return func() {
		if !late.Stop() {
			a.stuck.Add(-1)
		}
	}
}

// supervise sends heartbeats while the calls return. It returns when the dispatcher is drained
// or ctx ends.
func (d *Dispatcher) supervise(ctx context.Context) {
	ticker := time.NewTicker(beatInterval)
	defer ticker.Stop()
	logged := false
	for {
		if d.activity.stuck.Load() == 0 {
			d.options.Beat()
		} else if !logged {
			logged = true
			events, _ := d.Inflight()
			d.options.Logger.Error().Int("inflight", events).
				Msg("a call to the broker does not return; the liveness probe will fail")
		}
		select {
		case <-d.drained:
			return
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
