package history

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

// rest is how long a worker rests after a page while live events flow, as a multiple of the
// time for the page. With 3, the workers of a process use a quarter of the time.
const rest = 3

// PaceOptions configure a [Pace]. The zero value limits nothing.
type PaceOptions struct {
	// Rate is the most events per second that all workers of the process fold; 0 for no
	// bound.
	Rate float64
	// Live may be nil: then the workers never rest.
	Live *Activity
	// Registerer may be nil: no metrics then.
	Registerer prometheus.Registerer
}

// Pace limits the workers of a process. It bounds their rate. While live events flow, one
// worker at a time works, and rests after each page for a multiple of the page's time. So
// live events get most of the processor and of the store's capacity, and the work still
// progresses. Make it with [NewPace].
type Pace struct {
	limiter *rate.Limiter
	live    *Activity
	waited  *prometheus.CounterVec
	// turn is held by the one worker that works while live events flow.
	turn chan struct{}
	mu   sync.Mutex
	// resume is when the next turn may begin.
	resume time.Time
}

// NewPace makes a pace.
func NewPace(o PaceOptions) *Pace {
	p := &Pace{live: o.Live, turn: make(chan struct{}, 1), waited: newWaited(o.Registerer)}
	if o.Rate > 0 {
		// A page may have more events than a low rate allows per second.
		p.limiter = rate.NewLimiter(rate.Limit(o.Rate), max(int(o.Rate), 1))
	}
	return p
}

// Begin waits until a page of events may be processed. The caller calls end afterwards; more
// calls of end do nothing. The error is the context's cause.
func (p *Pace) Begin(ctx context.Context, events int) (end func(), err error) {
	start := time.Now()
	for p.limiter != nil && events > 0 {
		n := min(events, p.limiter.Burst())
		if err := p.limiter.WaitN(ctx, n); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, err
		}
		events -= n
	}
	limited := time.Now()
	p.waited.WithLabelValues(waitedRate).Add(limited.Sub(start).Seconds())
	if !p.Yielding() {
		return func() {}, nil
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	resume := p.resume
	p.mu.Unlock()
	if err := poll.Wait(ctx, time.Until(resume)); err != nil {
		<-p.turn
		return nil, err
	}
	begun := time.Now()
	p.waited.WithLabelValues(waitedLive).Add(begun.Sub(limited).Seconds())
	return sync.OnceFunc(func() {
		now := time.Now()
		p.mu.Lock()
		p.resume = now.Add(rest * now.Sub(begun))
		p.mu.Unlock()
		<-p.turn
	}), nil
}

// Yielding reports whether live events flow, so that the workers make small steps.
func (p *Pace) Yielding() bool { return p.live != nil && p.live.Active() }

const (
	// activeFor is how long after the last live event the stream counts as active.
	activeFor = time.Second
	// activityStep is how exactly the last live event is recorded.
	activityStep = activeFor / 10
)

// Activity records live events. The zero value is ready.
type Activity struct {
	// running counts the calls of Begin without an End.
	running atomic.Int64
	// last is nil before the first event. It keeps the monotonic reading, so that a changed
	// clock does not look like live events.
	last atomic.Pointer[time.Time]
}

// Begin records that the projection of live events begins. Live events that wait for a slow
// store, perhaps because of the jobs, still count.
func (a *Activity) Begin() { a.running.Add(1) }

// End records that what began with Begin has ended.
func (a *Activity) End() {
	defer a.running.Add(-1)
	if last := a.last.Load(); last == nil || time.Since(*last) >= activityStep {
		now := time.Now()
		a.last.Store(&now)
	}
}

// Active reports whether live events are being projected, or were within about the last
// second.
func (a *Activity) Active() bool {
	if a.running.Load() > 0 {
		return true
	}
	last := a.last.Load()
	return last != nil && time.Since(*last) < activeFor
}
