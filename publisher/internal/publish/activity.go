package publish

import (
	"context"
	"sync"
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

	mu sync.Mutex
	// calls holds the start of each call that is under way, by its number.
	calls map[uint64]time.Time
	next  uint64
}

func newActivity(sendTimeout time.Duration) *activity {
	return &activity{longest: sendTimeout + callGrace, calls: make(map[uint64]time.Time)}
}

// begin notes that a call into the SDK begins. The caller passes the number to end.
func (a *activity) begin() (call uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next++
	a.calls[a.next] = time.Now()
	return a.next
}

// end notes that a call has returned.
func (a *activity) end(call uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.calls, call)
}

// stuck reports whether a call does not return.
func (a *activity) stuck() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, begun := range a.calls {
		if time.Since(begun) > a.longest {
			return true
		}
	}
	return false
}

// supervise sends heartbeats while the calls return. It returns when the dispatcher is drained
// or ctx ends.
func (d *Dispatcher) supervise(ctx context.Context) {
	ticker := time.NewTicker(beatInterval)
	defer ticker.Stop()
	logged := false
	for {
		if !d.activity.stuck() {
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
