package publish

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

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
	// slowGrowth and fastGrowth are the growth of the rate per second of use. Growth is
	// slow near the rate that was throttled, because each further throttling costs a wait,
	// and doubles the rate where nothing is known.
	slowGrowth = 0.005
	fastGrowth = 1.0
	// knownUpTo is the multiple of the throttled rate up to which growth is slow.
	knownUpTo = 1.25
	// minRate, startRate and maxRate are in events per second. The first throttling does
	// not reduce the rate below startRate, because the standard tier grants 1000 credits
	// per second to a namespace. Above maxRate there is no limit.
	minRate   = 10
	startRate = 500
	maxRate   = 1e6
	// burst is the part of a second's events that may be sent at once.
	burst = 0.1
	// rateMemory is the time constant over which the accepted rate is averaged:
	// Service Bus grants its credits per second.
	rateMemory = time.Second
)

// rateLimit limits how fast the term sends, over all lanes and connections, because a
// throttled namespace refuses all of them. There is no limit until the broker reports that
// it is busy. Then nothing is sent for [busyWait], and the rate is bounded below the rate
// that had been accepted. The bound rises with use. It bounds events, not sends, because
// fewer sends would only make fuller batches.
type rateLimit struct {
	metrics *Metrics
	logger  zerolog.Logger

	free atomic.Bool   // no limit and no wait
	turn chan struct{} // holds a token; who has it may wait for the limit, then send

	mu       sync.Mutex
	rate     float64 // events per second; 0 without limit
	ceiling  float64 // the rate that was too much; 0 while unknown
	tokens   float64
	filled   time.Time // when tokens was right
	until    time.Time // nothing is sent before
	refusals int       // in a row

	average  float64 // events accepted per second, lately
	averaged time.Time
}

func newRateLimit(metrics *Metrics, logger zerolog.Logger) *rateLimit {
	p := &rateLimit{metrics: metrics, logger: logger, turn: make(chan struct{}, 1)}
	p.turn <- struct{}{}
	p.free.Store(true)
	return p
}

// wait waits until events may be sent. The caller then passes their number to done without
// delay, because others wait for it.
func (p *rateLimit) wait(ctx context.Context) (done func(events int), err error) {
	if p.free.Load() {
		return ignore, nil
	}
	select {
	case <-p.turn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for {
		delay := p.delay(time.Now())
		if delay <= 0 {
			return p.spend, nil
		}
		if err := poll.Wait(ctx, delay); err != nil {
			p.turn <- struct{}{}
			return nil, err
		}
	}
}

func ignore(int) {}

// delay is the time until something may be sent.
func (p *rateLimit) delay(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.until.Sub(now); d > 0 {
		return d
	}
	if p.rate == 0 {
		return 0
	}
	if since := now.Sub(p.filled); since > 0 {
		p.tokens = min(p.tokens+p.rate*since.Seconds(), max(1, p.rate*burst))
		p.filled = now
	}
	if p.tokens >= 0 {
		return 0
	}
	return seconds(-p.tokens/p.rate) + time.Microsecond // rounded up, not to wait twice
}

// spend takes the tokens for events and passes the turn on.
func (p *rateLimit) spend(events int) {
	p.mu.Lock()
	p.tokens -= float64(events)
	p.mu.Unlock()
	p.turn <- struct{}{}
}

// batch bounds the events of one batch by the burst.
func (p *rateLimit) batch(limit int) int {
	if p.free.Load() {
		return limit
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate == 0 {
		return limit
	}
	return min(limit, max(1, int(p.rate*burst)))
}

// accepted records that the broker has accepted events.
func (p *rateLimit) accepted(events int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	elapsed := p.decay(now)
	p.average += float64(events) / rateMemory.Seconds()
	if now.Before(p.until) {
		return // sent before the refusal
	}
	p.refusals = 0
	if p.rate == 0 || p.average < p.rate/2 {
		return // a rate that is not used proves nothing
	}
	growth := slowGrowth
	if p.rate > knownUpTo*p.ceiling {
		growth = fastGrowth
	}
	p.setRate(p.rate * math.Pow(1+growth, min(elapsed, rateMemory).Seconds()))
}

// refused records that the broker is busy. Refusals of sends that began before the first
// refusal prolong the wait and count as one.
func (p *rateLimit) refused(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.metrics.throttled.Inc()
	if now.Before(p.until) {
		if longer := now.Add(busyWait); longer.After(p.until) {
			p.until = longer
		}
		return
	}
	p.decay(now)
	if p.rate == 0 {
		// The broker accepted these events in a burst or a quiet time, so their rate is no
		// ceiling.
		p.setRate(max(p.average*rateDecrease, startRate))
	} else {
		// The average lags behind a rate that rose fast, and a rate that was hardly used
		// did not cause the throttling: the true limit is between the two.
		p.ceiling = min((p.average+p.rate)/2, p.rate)
		p.setRate(p.ceiling * rateDecrease)
	}
	wait := min(busyWait<<min(p.refusals, 8), maxBusyWait)
	p.refusals++
	p.until = now.Add(wait + rand.N(wait/10))
	p.averaged = p.until // the average is not of the time in which nothing is sent
	p.tokens, p.filled = 0, p.until
	p.free.Store(false)
	p.logger.Warn().Err(err).Stringer("wait", p.until.Sub(now).Round(time.Millisecond)).Float64("eventsPerSecond", p.rate).
		Msg("broker is busy; pausing sends, then sending more slowly")
}

func (p *rateLimit) setRate(rate float64) {
	if rate > maxRate {
		rate = 0
		p.free.Store(true)
	} else {
		rate = max(rate, minRate)
	}
	p.rate = rate
	p.metrics.rate.Set(rate)
}

// decay ages the average up to now, and gives the elapsed time.
func (p *rateLimit) decay(now time.Time) time.Duration {
	elapsed := now.Sub(p.averaged)
	if elapsed <= 0 {
		return 0
	}
	p.averaged = now
	p.average *= math.Exp(-elapsed.Seconds() / rateMemory.Seconds())
	return elapsed
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
