package guard

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/pkg/breaker"
)

// Rule identifies events that are judged together. The zero value is the rule for reading
// messages.
type Rule struct {
	Projection, EventType string
}

// maxRules bounds the rules that are judged separately. Beyond it, the further event
// types of a projection form one rule.
const maxRules = 10_000

// Options configure a [Guard]. Zero fields get their defaults.
type Options struct {
	// Share is the largest share of the recent events of a rule that may be set aside;
	// 0.2 by default. 1 switches the guard off.
	Share float64
	// Window is the number of recent events of a rule that count; 1,000 by default.
	Window int
	// Minimum is the number of events per window that may be set aside regardless of the
	// share, after their hold time; 10 by default.
	Minimum int
	// HoldTime is how long a bad event is held back while there are too few good ones; 10
	// s by default.
	HoldTime time.Duration
	// Tripped is called once, when the guard trips; nil for none. It must not call the
	// guard.
	Tripped func(error)
}

// Guard judges bad events. Make it with [New]. It is safe for concurrent use.
type Guard struct {
	options Options

	mu    sync.RWMutex
	rules map[Rule]*record
	err   error
}

// record holds the counts of a rule.
type record struct {
	breaker *breaker.Breaker
	// held are the events that are held back, with the times since when.
	held map[string]time.Time
	// aside are the last events that were set aside, as many as are allowed per window. A
	// message can come again before it is dead-lettered.
	aside []string
}

// setAside records that an event was set aside and is no longer held back.
func (r *record) setAside(id string, most int) {
	delete(r.held, id)
	if len(r.aside) >= most {
		r.aside = slices.Delete(r.aside, 0, len(r.aside)-most+1)
	}
	r.aside = append(r.aside, id)
}

// New makes a guard that has seen no event.
func New(o Options) *Guard {
	o.Share = cmp.Or(o.Share, 0.2)
	o.Window = cmp.Or(o.Window, 1000)
	o.Minimum = cmp.Or(o.Minimum, 10)
	o.HoldTime = cmp.Or(o.HoldTime, 10*time.Second)
	return &Guard{options: o, rules: map[Rule]*record{}}
}

// Err returns the reason why the guard has tripped; nil if it has not.
func (g *Guard) Err() error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.err
}

// Good counts n events that passed the rule.
func (g *Guard) Good(rule Rule, n int) {
	g.mu.RLock()
	r := g.rules[rule]
	g.mu.RUnlock()
	if r == nil {
		g.mu.Lock()
		r = g.record(rule)
		g.mu.Unlock()
	}
	r.breaker.Good(n)
}

// record returns the record of a rule. The caller must hold the lock.
func (g *Guard) record(rule Rule) *record {
	r := g.rules[rule]
	if r == nil && len(g.rules) >= maxRules {
		rule.EventType = ""
		r = g.rules[rule]
	}
	if r == nil {
		r = &record{
			breaker: breaker.New(breaker.Limit{Window: g.options.Window, Share: g.options.Share, Minimum: g.options.Minimum}),
			held:    map[string]time.Time{},
		}
		g.rules[rule] = r
	}
	return r
}

// Bad reports whether an event that failed its rule may be set aside now. Otherwise the
// caller must keep the event and ask again later, with the same id. If the guard trips at
// this event, explain makes its error: bad of the recent events of the rule have failed.
func (g *Guard) Bad(rule Rule, id string, explain func(bad, recent int) error) bool {
	if g.options.Share >= 1 {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return false
	}
	r := g.record(rule)
	if slices.Contains(r.aside, id) {
		return true
	}
	most := max(g.options.Minimum, int(g.options.Share*float64(g.options.Window)))
	recent, aside := r.breaker.Recent()
	if float64(aside+1) <= g.options.Share*float64(min(recent+1, g.options.Window)) && r.breaker.Allow() {
		r.setAside(id, most)
		return true
	}
	since, held := r.held[id]
	if !held {
		since = time.Now()
		r.held[id] = since
		g.forget(r, since)
	}
	bad := aside + len(r.held)
	recent = min(recent+len(r.held), g.options.Window)
	if bad > max(g.options.Minimum, int(g.options.Share*float64(recent))) {
		g.trip(explain(bad, recent))
		return false
	}
	if time.Since(since) < g.options.HoldTime {
		return false
	}
	if !r.breaker.Allow() {
		g.trip(explain(bad, recent))
		return false
	}
	r.setAside(id, most)
	return true
}

// forget removes events that have not come again for several hold times, because another
// process has received them.
func (g *Guard) forget(r *record, now time.Time) {
	const several = 6
	for id, since := range r.held {
		if now.Sub(since) > several*g.options.HoldTime {
			delete(r.held, id)
		}
	}
}

// trip trips the guard. The caller must hold the lock.
func (g *Guard) trip(reason error) {
	g.err = fmt.Errorf("circuit breaker: %w", reason)
	if g.options.Tripped != nil {
		g.options.Tripped(g.err)
	}
}
