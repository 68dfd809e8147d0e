package publish

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/backoff"
)

const (
	// busyWait is what Service Bus asks of a throttled client
	// (learn.microsoft.com/azure/service-bus-messaging/service-bus-throttling).
	busyWait = 2 * time.Second
	// maxBusyWait bounds the waits of throttlings in a row.
	maxBusyWait = 30 * time.Second

	// rateDecrease is what is kept of the rate at which a throttling set in.
	rateDecrease = 0.85
	// slowGrowth and fastGrowth are by how much the rate rises in a second of use:
	// slow near the rate that was too much, since each attempt beyond it costs a
	// wait; doubling where nothing is known.
	slowGrowth = 0.005
	fastGrowth = 1.0
	// knownUpTo is up to where the last throttling says something of the present.
	knownUpTo = 1.25
	// minRate, startRate and maxRate are in events per second. The first throttling
	// does not slow down below startRate: the standard tier grants 1000 credits a
	// second to the namespace. Beyond maxRate there is no limit.
	minRate   = 10
	startRate = 500
	maxRate   = 1e6
	// burst is how much of a second's events may leave at once.
	burst = 0.1
	// rateMemory is the time constant over which the accepted rate is averaged:
	// Service Bus grants its credits per second.
	rateMemory = time.Second
)

// pace is how fast the term may send, over all lanes and connections: a throttled
// namespace refuses them all. There is no limit until the broker says busy. Then
// nothing is sent for [busyWait], and the events per second are bounded below
// what had been accepted, rising again with use. It bounds events, not sends,
// because lanes coalesce: fewer sends would only be fuller.
type pace struct {
	metrics *Metrics
	logger  zerolog.Logger

	free atomic.Bool   // no limit and no wait
	turn chan struct{} // holds a token; who has it may wait for the pace, then send

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

func newPace(metrics *Metrics, logger zerolog.Logger) *pace {
	p := &pace{metrics: metrics, logger: logger, turn: make(chan struct{}, 1)}
	p.turn <- struct{}{}
	p.free.Store(true)
	return p
}

// wait waits until events may be sent. The caller says how many they are with
// done, without delay: others wait for that.
func (p *pace) wait(ctx context.Context) (done func(events int), err error) {
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
		if err := backoff.Wait(ctx, delay); err != nil {
			p.turn <- struct{}{}
			return nil, err
		}
	}
}

func ignore(int) {}

// delay is how long nothing may be sent yet.
func (p *pace) delay(now time.Time) time.Duration {
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

// spend ends a turn.
func (p *pace) spend(events int) {
	p.mu.Lock()
	p.tokens -= float64(events)
	p.mu.Unlock()
	p.turn <- struct{}{}
}

// batch bounds the events of one batch, so that it is no more than the burst.
func (p *pace) batch(most int) int {
	if p.free.Load() {
		return most
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate == 0 {
		return most
	}
	return min(most, max(1, int(p.rate*burst)))
}

// accepted notes that the broker has taken events.
func (p *pace) accepted(events int) {
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

// refused notes that the broker is busy. Refusals of what was sent before the
// first one prolong the wait and count as one.
func (p *pace) refused(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.metrics.throttled.Inc()
	if now.Before(p.until) {
		p.until = later(p.until, now.Add(busyWait))
		return
	}
	p.decay(now)
	if p.rate == 0 {
		// What was accepted before is that of a burst or of a quiet time: no ceiling.
		p.setRate(max(p.average*rateDecrease, startRate))
	} else {
		// The average lags behind a rate that rose fast, and a rate that was hardly
		// used was not what was too much: the truth is between the two.
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
		Msg("the broker is busy: sending waits, then slows down")
}

func (p *pace) setRate(rate float64) {
	if rate > maxRate {
		rate = 0
		p.free.Store(true)
	} else {
		rate = max(rate, minRate)
	}
	p.rate = rate
	p.metrics.rate.Set(rate)
}

// decay brings the average forward to now, and says by how much.
func (p *pace) decay(now time.Time) time.Duration {
	elapsed := now.Sub(p.averaged)
	if elapsed <= 0 {
		return 0
	}
	p.averaged = now
	p.average *= math.Exp(-elapsed.Seconds() / rateMemory.Seconds())
	return elapsed
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
