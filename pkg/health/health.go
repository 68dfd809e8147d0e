package health

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

// Health computes the verdict on a process from loops that must make progress, checks that
// must pass, and sources of conditions. Make it with [New]; it is safe for concurrent use.
type Health struct {
	// origin is the start of the times of heartbeats. They use the monotonic clock, which
	// does not jump like the wall clock.
	origin time.Time

	mu      sync.Mutex
	loops   []*Loop
	sources []*source
	figures map[string]func() (float64, bool)

	// asking ends the context of the sources, and asked are those that run.
	asking    context.Context //nolint:containedctx // of calls that outlast the one that starts them
	endAsking context.CancelFunc
	asked     sync.WaitGroup

	// evaluating is held while the verdict is computed, so that all callers share one
	// evaluation. It guards the following fields.
	evaluating sync.Mutex
	verdict    Verdict
	evaluated  time.Time
	// since is when each present condition was first seen.
	since map[[2]string]time.Time
}

// New makes a Health without loops, checks and sources: alive and [OK].
func New() *Health {
	h := &Health{origin: time.Now(), since: map[[2]string]time.Time{}}
	h.asking, h.endAsking = context.WithCancel(context.Background())
	return h
}

// End asks no check and no source any more, and waits for those that run. Call it before
// you close what they use: a request of the MongoDB driver in a client that is closed keeps
// a CPU busy until its context ends (topology.go, selectServerFromSubscription, v2.9.3).
// After End the process is not ready.
func (h *Health) End() {
	h.mu.Lock()
	h.endAsking()
	h.mu.Unlock()
	h.asked.Wait()
}

// Figure adds a number to the reports of the process; see [Report]. read returns false while there
// is none.
func (h *Health) Figure(name string, read func() (float64, bool)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.figures == nil {
		h.figures = map[string]func() (float64, bool){}
	}
	h.figures[name] = read
}

// numbers returns the figures that have a number.
func (h *Health) numbers() map[string]float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	numbers := map[string]float64{}
	for name, read := range h.figures {
		if v, ok := read(); ok {
			numbers[name] = v
		}
	}
	return numbers
}

// idle is the time of the last beat of a loop that the probe ignores.
const idle = -1

// Loop is one loop of the liveness probe. It is safe for concurrent use, and a beat takes
// no lock.
type Loop struct {
	name       string
	origin     time.Time
	maxSilence atomic.Int64
	last       atomic.Int64
}

// Loop returns the loop with that name. It must beat at least every maxSilence while it is
// active. A new loop is idle until its first beat. Goroutines that use the same name share
// a loop, which is alive while any of them beats.
func (h *Health) Loop(name string, maxSilence time.Duration) *Loop {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.loops {
		if l.name == name {
			l.maxSilence.Store(int64(maxSilence))
			return l
		}
	}
	l := &Loop{name: name, origin: h.origin}
	l.maxSilence.Store(int64(maxSilence))
	l.last.Store(idle)
	h.loops = append(h.loops, l)
	return l
}

// Beat records progress, and makes the loop active.
func (l *Loop) Beat() { l.last.Store(int64(time.Since(l.origin))) }

// Idle makes the probe ignore the loop until its next beat, because it has nothing to do,
// for example while another process leads.
func (l *Loop) Idle() { l.last.Store(idle) }

// stale returns how long the loop has been silent, and whether that is too long.
func (l *Loop) stale() (silence time.Duration, stale bool) {
	last := l.last.Load()
	if last == idle {
		return 0, false
	}
	silence = time.Since(l.origin) - time.Duration(last)
	return silence, silence > time.Duration(l.maxSilence.Load())
}

// Live reports every active loop that has been silent for too long, a line for
// each; nil if all make progress.
func (h *Health) Live() error {
	var lines []string
	for _, c := range h.stuck() {
		lines = append(lines, c.Text)
	}
	if len(lines) == 0 {
		return nil
	}
	return errors.New(strings.Join(lines, "\n"))
}

// stuck returns a condition for every active loop that has been silent for too long.
func (h *Health) stuck() []Condition {
	h.mu.Lock()
	loops := slices.Clone(h.loops)
	h.mu.Unlock()
	var found []Condition
	for _, l := range loops {
		if silence, stale := l.stale(); stale {
			found = append(found, Condition{
				Name: "loop-stuck", Subject: l.name, State: NotReady,
				Text: fmt.Sprintf("loop %s has made no progress for %s, at most %s are allowed",
					l.name, poll.Duration(silence), poll.Duration(time.Duration(l.maxSilence.Load()))),
			})
		}
	}
	return found
}
