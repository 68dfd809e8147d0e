package drain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// ErrDrainTimeout says that the drain timeout ended before all work had. The broker
// delivers messages that were not settled again.
var ErrDrainTimeout = errors.New("drain timeout exceeded")

// ErrRefused says that the broker has refused every accept of this process since its start,
// for a reason that needs an operator: the entity is missing or disabled, the credentials
// lack rights, or the subscription has no sessions.
var ErrRefused = errors.New("the broker refuses sessions")

// Acceptor drains a subscription. Make it with [New].
type Acceptor struct {
	options Options
	accepts *acceptLimiter
	pool    *pool
	// sizes are those of the messages of all sessions.
	sizes   sizes
	metrics *metrics
	// workers run the goroutines of the sessions.
	workers *poll.Pool
	reading reading
	// closing counts the sessions that have ended and are not closed yet.
	closing sync.WaitGroup
	// reached says that the broker has answered an accept properly once.
	reached  atomic.Bool
	refusals atomic.Int32
	refuse   context.CancelCauseFunc
	// failing is the last error of an accept; nil while the broker answers.
	failing atomic.Pointer[error]
}

// refusalsOut is how many refusals at the start end the process. A single refusal can come
// from a connection that breaks.
const refusalsOut = 3

// New makes an acceptor and registers its metrics. It does not connect.
func New(o Options) *Acceptor {
	o.Connections = min(o.Connections, o.Slots)
	m := newMetrics(o.Registerer, o.Behind)
	m.slots.Set(float64(o.Slots))
	return &Acceptor{
		options: o,
		accepts: newAcceptLimiter(o.Slots),
		pool:    newPool(o.Connections, o.Dial, m, o.Logger),
		metrics: m,
		// A session has a pump, a keeper, mostly one call, and settlements in between.
		workers: poll.NewPool(4 * o.Slots),
	}
}

// Run drains until ctx ends. Then it accepts no further session, finishes and settles what
// it has received, releases its sessions and returns nil. If that takes longer than the
// drain timeout, it returns [ErrDrainTimeout] at once. It also returns [ErrRefused] if the
// broker refuses sessions before the first one was accepted. Later refusals are retried,
// because an operator may be changing the entity or the rights. Run can be called once.
func (a *Acceptor) Run(ctx context.Context) error {
	ctx, a.refuse = context.WithCancelCause(ctx)
	defer a.refuse(nil)
	drained := a.drainAll(ctx)
	waitFor(&a.closing, time.Second)
	a.pool.shutdown(time.Second)
	a.workers.Stop()
	if !drained {
		return ErrDrainTimeout
	}
	waitFor(a.workers, time.Second)
	if cause := context.Cause(ctx); errors.Is(cause, ErrRefused) {
		return cause
	}
	return nil
}

// drainAll drains in all slots until ctx ends. After that it reports whether all work was
// finished within the drain timeout.
func (a *Acceptor) drainAll(ctx context.Context) (drained bool) {
	hard, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(nil)
	var slots sync.WaitGroup
	for i := range a.options.Slots {
		slots.Go(func() { a.slot(ctx, hard, i) })
	}
	<-ctx.Done()

	a.options.Logger.Info().Msg("draining; accepting no more sessions")
	if waitFor(&slots, a.options.DrainTimeout) {
		return true
	}
	abort(ErrDrainTimeout)
	// Goroutines that respect their context end now. The others end with the process.
	waitFor(&slots, time.Second)
	return false
}

// slot accepts and drains one session after the other.
func (a *Acceptor) slot(stop, hard context.Context, index int) {
	heartbeat := a.options.Heartbeat(index)
	defer heartbeat.Idle()
	for {
		t, err := a.accepts.enter(stop)
		if err != nil {
			return
		}
		heartbeat.Beat()
		accepted, conn, ok := a.accept(stop, t)
		if !ok {
			heartbeat.Idle()
			continue
		}
		a.drain(stop, hard, accepted, heartbeat)
		a.pool.release(conn)
		heartbeat.Idle()
	}
}

// drain drains an accepted session, and reports its end to the limiter.
func (a *Acceptor) drain(stop, hard context.Context, accepted Accepted, heartbeat Heartbeat) {
	o := &a.options
	s := &session{
		options: o, handler: o.Handler, accepted: accepted, accepts: a.accepts, heartbeat: heartbeat, metrics: a.metrics, workers: a.workers, reading: &a.reading,
		log:   o.Logger.With().Str("session", accepted.SessionID).Logger(),
		inbox: newInbox(2*o.BatchSize, o.share(), &a.sizes),
		queue: newQueue(), returned: make(chan *call, 1),
	}
	a.metrics.sessionsActive.Inc()
	s.log.Debug().Time("lockedUntil", accepted.LockedUntil).Msg("session accepted")
	end := s.run(stop, hard, a.closing.Go)
	a.metrics.sessionsActive.Dec()
	a.metrics.ends.WithLabelValues(string(end)).Inc()
	a.accepts.left(s.madeRoom)
	s.log.Debug().Str("reason", string(end)).Dur("held", time.Since(s.started)).Msg("session released")
}

// accept uses a ticket to accept a session. On success conn stays in use until it is
// released.
func (a *Acceptor) accept(stop context.Context, t ticket) (Accepted, *pooled, bool) {
	conn, err := a.pool.take()
	if err != nil {
		a.options.Logger.Error().Err(err).Msg("connection not opened")
		a.failing.Store(&err)
		a.metrics.accepts.WithLabelValues(acceptFailed).Inc()
		a.accepts.failed(t, 0)
		return Accepted{}, nil, false
	}
	wait := acceptWait
	if a.failing.Load() != nil || !a.reached.Load() {
		wait = firstAcceptWait
	}
	ctx, cancel := context.WithTimeout(stop, wait+acceptGrace)
	defer cancel()
	accepted, err := conn.Accept(ctx, wait)
	if err == nil {
		a.tellConnected()
		a.metrics.accepts.WithLabelValues(acceptedSession).Inc()
		a.pool.answered(conn)
		a.accepts.granted(t)
		return accepted, conn, true
	}
	a.missed(stop, ctx, t, conn, err)
	a.pool.release(conn)
	return Accepted{}, nil, false
}

// missed handles an accept without a session.
func (a *Acceptor) missed(stop, ctx context.Context, t ticket, conn *pooled, err error) {
	class := sbus.Classify(err)
	result := acceptFailed
	switch {
	case stop.Err() != nil:
		a.pool.stopped(conn)
		a.accepts.stopped(t)
		return
	case errors.Is(err, ErrNoSession):
		result = acceptedNone
		a.tellConnected()
		a.pool.answered(conn)
		a.accepts.none(t)
	case class == sbus.ClassBusy:
		result = acceptBusy
		a.failing.Store(nil)
		a.pool.answered(conn)
		a.accepts.failed(t, busyWait)
	default:
		a.pool.failed(conn, ctx.Err() != nil)
		a.accepts.failed(t, 0)
		a.failing.Store(&err)
		if (class == sbus.ClassFatal || class == sbus.ClassRefused) && !a.reached.Load() && a.refusals.Add(1) == refusalsOut {
			a.refuse(fmt.Errorf("%w: %w", ErrRefused, err))
		}
	}
	a.metrics.accepts.WithLabelValues(result).Inc()
	if result != acceptedNone {
		a.options.Logger.Warn().Err(err).Stringer("class", class).Msg("session not accepted")
	}
}

// Failing returns the error of the last accept if the broker has not answered it properly.
func (a *Acceptor) Failing() error {
	if err := a.failing.Load(); err != nil {
		return *err
	}
	return nil
}

// Waiting counts the sessions that wait for a store.
func (a *Acceptor) Waiting() int { return int(a.metrics.waiting.Load()) }

func (a *Acceptor) tellConnected() {
	a.failing.Store(nil)
	if !a.reached.Swap(true) {
		a.options.Connected()
	}
}

// Waited says how long the messages that were received in the last minute had waited in the
// subscription. The age of a message is the difference of the clocks of broker and process.
func (a *Acceptor) Waited() health.Durations { return a.metrics.waited.Durations() }
