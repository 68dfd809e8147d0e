package publish

import (
	"context"
	"slices"
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

// activity shows whether the dispatcher makes progress. Every call into the SDK has a
// timeout, and every wait between two calls is bounded. So while events wait to be sent, a
// call soon begins or ends, whatever the broker answers. An outage, a throttled broker and
// back-pressure count as progress.
type activity struct {
	// longestCall bounds one call, longestPause the time between two calls.
	longestCall, longestPause time.Duration

	mu sync.Mutex
	// last is when a call last began or ended, or when nothing was to be done.
	last time.Time
	// calls holds the start of each call that is under way, by its number.
	calls map[uint64]time.Time
	next  uint64
	// stores counts the events that are being stored in the quarantine. Storing is retried
	// as long as its database cannot be reached.
	stores int
}

func newActivity(sendTimeout time.Duration) *activity {
	return &activity{
		longestCall:  sendTimeout + callGrace,
		longestPause: sendTimeout + 2*maxBusyWait,
		last:         time.Now(),
		calls:        make(map[uint64]time.Time),
	}
}

// begin notes that a call into the SDK begins. The caller passes the number to end.
func (a *activity) begin() (call uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = time.Now()
	a.next++
	a.calls[a.next] = a.last
	return a.next
}

// end notes that a call has returned.
func (a *activity) end(call uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = time.Now()
	delete(a.calls, call)
}

// store notes that storing an event in the quarantine begins (1) or ends (-1).
func (a *activity) store(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = time.Now()
	a.stores += n
}

// stuck reports whether a call does not return, or no call begins or ends although events
// are pending.
func (a *activity) stuck(now time.Time, pending bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, begun := range a.calls {
		if now.Sub(begun) > a.longestCall {
			return true
		}
	}
	if !pending || a.stores > 0 {
		a.last = now
	}
	return now.Sub(a.last) > a.longestPause
}

// supervise sends heartbeats while the dispatcher makes progress. It returns when the
// dispatcher is drained or ctx ends.
func (d *Dispatcher) supervise(ctx context.Context) {
	ticker := time.NewTicker(beatInterval)
	defer ticker.Stop()
	logged := false
	for {
		if !d.activity.stuck(time.Now(), d.pending()) {
			d.options.Beat()
		} else if !logged {
			logged = true
			events, _ := d.Inflight()
			d.options.Logger.Error().Int("inflight", events).
				Msg("publishing makes no progress and no call to the broker returns; the liveness probe will fail")
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

// pending reports whether a lane is ready or a worker is busy.
func (d *Dispatcher) pending() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.workers > d.idle || slices.ContainsFunc(d.lanes.ready[:], func(q laneQueue) bool { return q.head != nil })
}
