package publish

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

const (
	// busyWait is the wait that Service Bus demands of a throttled client
	// (learn.microsoft.com/azure/service-bus-messaging/service-bus-throttling).
	busyWait = 2 * time.Second
	// maxBusyWait bounds the wait after consecutive throttlings.
	maxBusyWait = 30 * time.Second

	// rateDecrease is the part of the accepted rate that is kept after a throttling.
	rateDecrease = 0.85
	// slowGrowth is the growth of the rate in a second of use, because each further throttling
	// costs a wait. Above knownUpTo times the throttled rate the limit is unknown, so the rate
	// doubles.
	slowGrowth = 1.005
	knownUpTo  = 1.25
	// minRate, startRate and maxRate are in events per second. The first throttling does
	// not reduce the rate below startRate, because the standard tier grants 1000 credits
	// per second to a namespace. Above maxRate there is no limit.
	minRate   = 10
	startRate = 500
	maxRate   = 1e6
	// burst is the part of a second's events that may be sent at once.
	burst = 0.1
)

// rateLimit limits how fast the term sends, over all lanes and connections, because a
// throttled namespace refuses all of them. There is no limit until the broker reports that
// it is busy. Then nothing is sent for [busyWait], and the rate is bounded below the rate
// that had been accepted. The bound rises with use. It bounds events, not sends, because
// fewer sends would only make fuller batches.
type rateLimit struct {
	metrics *Metrics
	logger  zerolog.Logger
	limiter *rate.Limiter // of events; infinite without a limit
	turn    chan struct{} // has a token from wait to spend

	mu       sync.Mutex
	until    time.Time // nothing is sent before
	refusals int       // in a row
	ceiling  float64   // the rate that was too much; 0 while unknown
	// accepted counts the events that were accepted since the time of counted, and average is
	// how many were accepted in the second before it.
	accepted int
	counted  time.Time
	average  float64
}

func newRateLimit(metrics *Metrics, logger zerolog.Logger) *rateLimit {
	return &rateLimit{metrics: metrics, logger: logger, limiter: rate.NewLimiter(rate.Inf, 1), turn: make(chan struct{}, 1)}
}

// limited reports whether the rate is limited.
func (l *rateLimit) limited() bool { return l.limiter.Limit() != rate.Inf }

// wait waits until an event may be sent. The caller then passes the number of events to spend
// without delay, because others wait for it.
func (l *rateLimit) wait(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for delay := l.delay(); delay > 0; delay = l.delay() {
		if err := poll.Wait(ctx, delay); err != nil {
			<-l.turn
			return err
		}
	}
	return nil
}

// delay returns the time until something may be sent.
func (l *rateLimit) delay() time.Duration {
	if !l.limited() {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if pause := time.Until(l.until); pause > 0 {
		return pause
	}
	missing := max(0, -l.limiter.Tokens())
	return time.Duration(math.Ceil(missing / float64(l.limiter.Limit()) * float64(time.Second)))
}

// spend counts the events of a batch. Later batches wait until the rate allows all of them.
func (l *rateLimit) spend(events int) {
	l.limiter.ReserveN(time.Now(), events)
	<-l.turn
}

// batch bounds the events of one batch by the burst.
func (l *rateLimit) batch(limit int) int {
	if !l.limited() {
		return limit
	}
	return min(limit, l.limiter.Burst())
}

// took records that the broker has accepted events. A rate that is used grows every second.
func (l *rateLimit) took(events int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Before(l.until) {
		return // sent before the refusal
	}
	l.refusals = 0
	l.accepted += events
	elapsed := now.Sub(l.counted)
	if elapsed < time.Second {
		return
	}
	l.average = float64(l.accepted) / elapsed.Seconds()
	l.accepted, l.counted = 0, now
	bound := float64(l.limiter.Limit())
	switch {
	case !l.limited() || l.average < bound/2: // a rate that is not used proves nothing
	case bound > knownUpTo*l.ceiling:
		l.set(2 * bound)
	default:
		l.set(slowGrowth * bound)
	}
}

// refused records that the broker is busy. Refusals of sends that began before the first
// refusal prolong the wait and count as one.
func (l *rateLimit) refused(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.metrics.throttled.Inc()
	if now.Before(l.until) {
		if longer := now.Add(busyWait); longer.After(l.until) {
			l.until = longer
		}
		return
	}
	if l.limited() {
		// A rate that was hardly used did not cause the throttling: the true limit is between
		// it and the accepted rate.
		bound := float64(l.limiter.Limit())
		l.ceiling = min((l.average+bound)/2, bound)
		l.set(l.ceiling * rateDecrease)
	} else {
		// The broker accepted these events in a burst or a quiet time, so their rate is no
		// ceiling.
		l.set(max(l.average*rateDecrease, startRate))
	}
	wait := min(busyWait<<min(l.refusals, 8), maxBusyWait)
	l.refusals++
	l.until = now.Add(wait + rand.N(wait/10))
	l.accepted, l.counted = 0, l.until // the average leaves out the time in which nothing is sent
	l.logger.Warn().Err(err).Stringer("wait", l.until.Sub(now).Round(time.Millisecond)).Float64("eventsPerSecond", float64(l.limiter.Limit())).
		Msg("broker is busy; pausing sends, then sending more slowly")
}

// set limits the rate, or ends the limit. The caller holds the mutex.
func (l *rateLimit) set(events float64) {
	if events > maxRate {
		l.limiter.SetLimit(rate.Inf)
		l.metrics.rate.Set(0)
		return
	}
	events = max(events, minRate)
	l.limiter.SetLimit(rate.Limit(events))
	l.limiter.SetBurst(max(1, int(events*burst)))
	l.metrics.rate.Set(events)
}
