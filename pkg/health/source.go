package health

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// Limits of the evaluation of a verdict.
const (
	// verdictAge is how long a verdict is reused: however many probes and viewers ask, the
	// sources are asked once a second.
	verdictAge = time.Second
	// sourceTimeout bounds all sources of one evaluation together. A kubelet waits for 1 s
	// by default, and longer in the charts. After the timeout, the verdict still names the
	// sources that are slow.
	sourceTimeout = 2 * time.Second
)

// source returns conditions.
type source struct {
	name string
	run  func(context.Context) []Condition
	// answers gets the answer of the call that is under way; nil if none is. A source that
	// does not return is not called again until it has.
	answers chan []Condition
}

// Ready adds a check. While run returns an error, the process is not ready. run is called by one
// goroutine at a time, and must return soon after its context ends.
func (h *Health) Ready(name string, run func(context.Context) error) {
	h.Watch(name, func(ctx context.Context) []Condition {
		if err := run(ctx); err != nil {
			return []Condition{{Name: name, State: NotReady, Text: strings.ReplaceAll(err.Error(), "\n", "; ")}}
		}
		return nil
	})
}

// Watch adds a source of conditions. run returns the conditions that hold now. It is called by
// one goroutine at a time, and must return soon after its context ends.
func (h *Health) Watch(name string, run func(context.Context) []Condition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sources = append(h.sources, &source{name: name, run: run})
}

// Verdict returns the verdict on the process. It is at most a second old, and takes at most
// 2 s.
func (h *Health) Verdict() Verdict {
	h.evaluating.Lock()
	defer h.evaluating.Unlock()
	if !h.evaluated.IsZero() && time.Since(h.evaluated) < verdictAge {
		return h.verdict
	}
	v := Judge(append(h.stuck(), h.ask()...))
	now := time.Now()
	present := make(map[[2]string]bool, len(v.Conditions))
	for i := range v.Conditions {
		c := &v.Conditions[i]
		present[c.key()] = true
		if c.Since.IsZero() {
			if h.since[c.key()].IsZero() {
				h.since[c.key()] = now
			}
			c.Since = h.since[c.key()]
		}
	}
	maps.DeleteFunc(h.since, func(key [2]string, _ time.Time) bool { return !present[key] })
	h.verdict, h.evaluated = v, now
	return v
}

// ask asks all sources concurrently. The caller holds evaluating.
func (h *Health) ask() []Condition {
	ctx, cancel := mongox.Timeout(h.asking, sourceTimeout)
	defer cancel()
	h.mu.Lock()
	sources := slices.Clone(h.sources)
	if h.asking.Err() != nil {
		h.mu.Unlock()
		return []Condition{{Name: "process", State: NotReady, Text: "it is stopping"}}
	}
	for _, s := range sources {
		if s.answers == nil {
			answers := make(chan []Condition, 1)
			s.answers = answers
			h.asked.Go(func() { answers <- s.run(ctx) })
		}
	}
	h.mu.Unlock()
	var found []Condition
	for _, s := range sources {
		select {
		case conditions := <-s.answers:
			found, s.answers = append(found, conditions...), nil
			continue
		case <-ctx.Done():
		}
		// A source that returns when its context ends may have a more specific answer.
		select {
		case conditions := <-s.answers:
			found, s.answers = append(found, conditions...), nil
		default:
			found = append(found, Condition{Name: s.name, State: NotReady, Text: "no answer within " + sourceTimeout.String()})
		}
	}
	return found
}
