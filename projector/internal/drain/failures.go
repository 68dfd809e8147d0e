package drain

import (
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the memory of failures.
const (
	// maxFailures bounds how many aggregates are remembered. If more fail at the same time,
	// the reason is the store and not an aggregate, so none is given up.
	maxFailures = 4096
	// failureShown is how long a failure counts in the metric.
	failureShown = time.Minute
	// answerStride is how long an answer counts as evidence that the store works. It is not
	// shorter than the longest pause of a lane.
	answerStride = maxLanePause
)

// failures remembers which aggregates could not be finished, and for how long. All
// sessions of a process share one: a session that is given back at the end of its
// tenure returns later, and the time of failure of its aggregates continues.
//
// That time runs only while the store takes writes of other aggregates, or refuses one
// because of another document. It stops while the store is down for all of them, so no
// aggregate is given up because of an outage.
type failures struct {
	// memory is how long the failure of a store is remembered for an aggregate that this
	// process does not try again, because another process has its session or it has no
	// further event. Gaps are remembered for longer, see entry.
	memory time.Duration

	mu          sync.Mutex
	byAggregate map[string]*failure
	// any says that byAggregate has an entry. It saves healthy aggregates the lock.
	any atomic.Bool
	// clock is how long the store has answered writes in total, last when it last answered
	// one.
	clock time.Duration
	last  time.Time
	// swept is when outdated entries were last removed.
	swept time.Time
}

// failure is an aggregate that could not be finished.
type failure struct {
	// since is the value of clock when a store first failed; negative if none has.
	since time.Duration
	// missing is the event that the aggregate lacks since gapSince, which is zero if it
	// has no gap.
	missing  int64
	gapSince time.Time
	// seen is when the aggregate was last tried.
	seen time.Time
}

const (
	// failureMemory is how many times the limit a failure is remembered.
	failureMemory = 5
	// leastMemory is how long a failure is remembered in any case. It is longer than the turns
	// of all sessions whose aggregates can be remembered.
	leastMemory = 5 * time.Minute
)

// newFailures makes an empty memory. limit is the time after which an aggregate is given
// up.
func newFailures(limit time.Duration) *failures {
	return &failures{memory: max(failureMemory*limit, leastMemory), byAggregate: make(map[string]*failure)}
}

// full reports whether no further aggregate can be remembered.
func (f *failures) full() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.byAggregate) >= maxFailures
}

// answered records that the store has answered a write.
func (f *failures) answered(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.last.IsZero() {
		f.clock += min(max(now.Sub(f.last), 0), answerStride)
	}
	f.last = now
}

// failed records that a store failed for an aggregate. lasted is for how long it has failed
// while the store answered other writes; 0 if the aggregate cannot be remembered. few
// reports whether so few aggregates fail that they can be the reason.
func (f *failures) failed(key string, now time.Time) (lasted time.Duration, few bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.entry(key, now)
	if e == nil {
		return 0, false
	}
	if e.since < 0 {
		e.since = f.clock
	}
	return f.clock - e.since, len(f.byAggregate) < maxFailures
}

// gap records that an aggregate lacks an event, and that its session has known that since
// known. It returns since when this process has known it, in this session or an earlier
// one.
func (f *failures) gap(key string, missing int64, known, now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.entry(key, now)
	if e == nil {
		return known
	}
	if e.gapSince.IsZero() || e.missing != missing {
		e.missing, e.gapSince = missing, known
	}
	return e.gapSince
}

// recovered forgets an aggregate because one of its events was finished.
func (f *failures) recovered(key string) {
	if !f.any.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byAggregate, key)
	f.any.Store(len(f.byAggregate) > 0)
}

// known reports whether the aggregate could not be finished at its last attempt.
func (f *failures) known(key string, now time.Time) bool {
	if !f.any.Load() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.byAggregate[key]
	return e != nil && !f.outdated(e, now)
}

// shown counts the aggregates that have failed lately.
func (f *failures) shown(now time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, e := range f.byAggregate {
		if now.Sub(e.seen) <= failureShown {
			n++
		}
	}
	return n
}

// entry returns the entry of an aggregate, a new one if necessary; nil if there are too
// many. The caller holds the lock.
func (f *failures) entry(key string, now time.Time) *failure {
	e := f.byAggregate[key]
	if e == nil {
		if len(f.byAggregate) >= maxFailures {
			f.sweep(now)
		}
		if len(f.byAggregate) >= maxFailures {
			return nil
		}
		e = &failure{since: -1}
		f.byAggregate[key] = e
		f.any.Store(true)
	} else if f.outdated(e, now) {
		// Another process may have written the aggregate since, so the time of a failing
		// store starts again. The time of a gap continues, because an event that is still
		// missing has been missing all the time.
		e.since = -1
	}
	e.seen = now
	return e
}

func (f *failures) outdated(e *failure, now time.Time) bool { return now.Sub(e.seen) > f.memory }

// sweep removes outdated entries, at most once a second. The caller holds the lock.
func (f *failures) sweep(now time.Time) {
	if now.Sub(f.swept) < time.Second {
		return
	}
	f.swept = now
	for key, e := range f.byAggregate {
		if f.outdated(e, now) {
			delete(f.byAggregate, key)
		}
	}
	f.any.Store(len(f.byAggregate) > 0)
}
