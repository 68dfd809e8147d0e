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
)

// Health holds the state of a service's probes: loops that must make progress, and checks
// that must pass. Make it with [New]; it is safe for concurrent use.
type Health struct {
	// origin is the start of the times of heartbeats. They use the monotonic clock, which
	// does not jump like the wall clock.
	origin time.Time

	mu     sync.Mutex
	loops  []*Loop
	checks []check
}

type check struct {
	name string
	run  func(context.Context) error
}

// New makes a Health without loops and checks: alive and ready.
func New() *Health { return &Health{origin: time.Now()} }

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
	h.mu.Lock()
	loops := slices.Clone(h.loops)
	h.mu.Unlock()
	var lines []string
	for _, l := range loops {
		if silence, stale := l.stale(); stale {
			lines = append(lines, fmt.Sprintf("loop %s has made no progress for %s, at most %s are allowed",
				l.name, silence.Round(time.Millisecond), time.Duration(l.maxSilence.Load())))
		}
	}
	return join(lines)
}

// Ready adds a check to the readiness probe, or replaces the check with that name. run must
// return soon after its context ends, and be safe for concurrent use.
func (h *Health) Ready(name string, run func(context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks = slices.DeleteFunc(slices.Clone(h.checks), func(c check) bool { return c.name == name })
	h.checks = append(h.checks, check{name, run})
}

// checkTimeout bounds the readiness checks of one probe together. A kubelet waits for 1 s
// by default, and longer in the charts. After the timeout, the answer still names the
// checks that are slow.
const checkTimeout = 2 * time.Second

// CheckReady runs the readiness checks concurrently, for at most 2 s, and reports those
// that fail, one per line; nil if all pass.
func (h *Health) CheckReady(ctx context.Context) error {
	h.mu.Lock()
	checks := slices.Clone(h.checks)
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()

	results := make([]chan error, len(checks))
	for i, c := range checks {
		results[i] = make(chan error, 1)
		go func() { results[i] <- c.run(ctx) }()
	}
	var lines []string
	for i, c := range checks {
		var err error
		select {
		case err = <-results[i]:
		case <-ctx.Done():
			// A check that returns when its context ends may have a more specific error.
			select {
			case err = <-results[i]:
			default:
				err = ctx.Err()
			}
		}
		if err != nil {
			lines = append(lines, c.name+": "+strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	return join(lines)
}

// Problems reports all problems of Live and CheckReady, one per line; nil if there are
// none.
func (h *Health) Problems(ctx context.Context) error {
	return errors.Join(h.Live(), h.CheckReady(ctx))
}

func join(lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return errors.New(strings.Join(lines, "\n"))
}
