package guard

import (
	"sync"
	"sync/atomic"

	"github.com/penstock-cdc/penstock/pkg/breaker"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Rule is a handler: one event type of a projection.
type Rule struct {
	Projection, EventType string
}

const (
	// maxRules bounds the rules that are judged separately. Beyond it, the further event
	// types of a projection form one rule.
	maxRules = 10_000
	// window is the number of recent events of a rule that count.
	window = 1000
)

// Rules judges the failures of handlers. Make it with [NewRules]. It is safe for concurrent
// use.
type Rules struct {
	share float64

	mu    sync.RWMutex
	rules map[Rule]*record
}

// record holds the counts of a rule.
type record struct {
	breaker *breaker.Breaker
	// works is set when the rule has applied an event.
	works atomic.Bool

	mu sync.Mutex
	// trial judges until the rule works. suspected says that the last judgement
	// was [model.RuleWrong].
	trial     trial
	suspected bool
}

// NewRules makes rules without any event. share is the largest share of the recent events of
// a rule that may be wrong; with 1 every failing event is.
func NewRules(share float64) *Rules {
	return &Rules{share: share, rules: map[Rule]*record{}}
}

// Good counts an event that its rule has applied.
func (g *Rules) Good(rule Rule) {
	r := g.record(rule)
	if !r.works.Load() {
		r.works.Store(true)
	}
	r.breaker.Good(1)
}

// Bad judges an event that failed its rule. first is set for the first judgement in a row that
// the rule is wrong.
func (g *Rules) Bad(rule Rule, id string) (j model.Judgement, first bool) {
	if g.share >= 1 {
		return model.EventWrong, false
	}
	r := g.record(rule)
	r.mu.Lock()
	defer r.mu.Unlock()
	j = r.judge(id)
	first = j == model.RuleWrong && !r.suspected
	r.suspected = j == model.RuleWrong
	return j, first
}

// judge judges an event. The caller must hold the lock.
func (r *record) judge(id string) model.Judgement {
	switch {
	case !r.works.Load():
		return r.trial.judge(id)
	case r.breaker.Allow(0):
		return model.EventWrong
	}
	return model.RuleWrong
}

// record returns the record of a rule.
func (g *Rules) record(rule Rule) *record {
	g.mu.RLock()
	r := g.rules[rule]
	g.mu.RUnlock()
	if r != nil {
		return r
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if r = g.rules[rule]; r == nil && len(g.rules) >= maxRules {
		rule.EventType = ""
		r = g.rules[rule]
	}
	if r == nil {
		r = &record{breaker: breaker.New(breaker.Limit{Window: window, Share: g.share, Minimum: minimum})}
		g.rules[rule] = r
	}
	return r
}
