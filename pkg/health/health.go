package health

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Health holds what a service's probes ask: loops that must make progress and
// checks that must pass. Make it with [New]; it is safe for concurrent use.
type Health struct {
	mu     sync.Mutex
	loops  []*Loop
	checks []check
}

type check struct {
	name string
	run  func(context.Context) error
}

// New makes a Health without loops and checks: alive and ready.
func New() *Health { return &Health{} }

// Loop is one loop's place in the liveness probe. It is safe for concurrent use.
type Loop struct {
	name       string
	maxSilence time.Duration
	mu         sync.Mutex
	active     bool
	last       time.Time
}

// Loop adds a loop that beats at least every maxSilence while it is active. It is
// idle until its first beat. The name should be unique: the probe shows it.
func (h *Health) Loop(name string, maxSilence time.Duration) *Loop {
	l := &Loop{name: name, maxSilence: maxSilence}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.loops = append(h.loops, l)
	return l
}

// Beat says that the loop makes progress, and makes it active.
func (l *Loop) Beat() {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active, l.last = true, now
}

// Idle takes the loop out of the probe until its next beat: it has nothing to do,
// such as when another process leads.
func (l *Loop) Idle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active = false
}

// silence is how long an active loop has not beaten.
func (l *Loop) silence(now time.Time) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Sub(l.last), l.active
}

// Ready adds a check of the readiness probe, replacing one of the same name. run
// must return when its context ends.
func (h *Health) Ready(name string, run func(context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks = slices.DeleteFunc(h.checks, func(c check) bool { return c.name == name })
	h.checks = append(h.checks, check{name, run})
}

// Live reports every loop that is stale, by name; nil where all make progress.
func (h *Health) Live() error {
	h.mu.Lock()
	loops := slices.Clone(h.loops)
	h.mu.Unlock()
	now := time.Now()
	var stale []string
	for _, l := range loops {
		if silence, active := l.silence(now); active && silence > l.maxSilence {
			stale = append(stale, fmt.Sprintf("loop %s has made no progress for %s, allowed are %s", l.name, silence.Round(time.Millisecond), l.maxSilence))
		}
	}
	if stale == nil {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(stale, "\n"))
}
