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

// Health holds what a service's probes ask: loops that must make progress, and
// checks that must pass. Make it with [New]; it is safe for concurrent use.
type Health struct {
	// origin is what beats are measured from: the monotonic clock does not jump as
	// the wall clock does.
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

// idle stands for the time of the last beat of a loop that is left out of the
// probe.
const idle = -1

// Loop is one loop's place in the liveness probe. It is safe for concurrent use,
// and a beat costs no lock.
type Loop struct {
	name       string
	origin     time.Time
	maxSilence atomic.Int64
	last       atomic.Int64
}

// Loop gives the loop of that name, which beats at least every maxSilence while it
// is active. A new one is idle until its first beat. Goroutines that share a name
// share a loop: it is alive while any of them beats.
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

// Beat says that the loop makes progress, and makes it active.
func (l *Loop) Beat() { l.last.Store(int64(time.Since(l.origin))) }

// Idle takes the loop out of the probe until its next beat: it has nothing to do,
// such as where another process leads.
func (l *Loop) Idle() { l.last.Store(idle) }

// stale tells for how long the loop has been silent, where that is too long.
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

// Ready adds a check of the readiness probe, in the place of one of the same name.
// run must return soon after its context ends, and be safe for concurrent use.
func (h *Health) Ready(name string, run func(context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks = slices.DeleteFunc(slices.Clone(h.checks), func(c check) bool { return c.name == name })
	h.checks = append(h.checks, check{name, run})
}

// checkTimeout bounds the readiness checks of one probe together. A kubelet asks
// with 1 s by default and charts with more; past it, the answer still says what is
// slow.
const checkTimeout = 2 * time.Second

// CheckReady runs the readiness checks at the same time, for 2 s at most, and
// reports those that fail, a line for each; nil if all pass.
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
			// A check that heeds its context has more to say than that it ended.
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

// Problems reports everything that Live and CheckReady do, a line for each; nil if there
// is nothing.
func (h *Health) Problems(ctx context.Context) error {
	return errors.Join(h.Live(), h.CheckReady(ctx))
}

func join(lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return errors.New(strings.Join(lines, "\n"))
}
