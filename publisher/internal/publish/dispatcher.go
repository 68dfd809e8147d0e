package publish

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"
)

// ErrClosed says that the dispatcher accepts no more events: it drains or has
// ended.
var ErrClosed = errors.New("dispatcher is closed")

// errDrained is the cause that ends Run after a drain.
var errDrained = errors.New("dispatcher is drained")

// Dispatcher publishes the events of one term. Make it with [New], run [Dispatcher.Run],
// and pass events to [Dispatcher.Submit].
type Dispatcher struct {
	options     Options
	metrics     *Metrics
	rateLimit   *rateLimit
	connections *connections
	activity    *activity
	// retryLog logs what fails repeatedly. It samples, because an outage affects every lane.
	retryLog zerolog.Logger
	ends

	mu    sync.Mutex // guards the following
	lanes lanes
	memory
	topic
	pool
}

// ends are the signals of a dispatcher, and how it ends.
type ends struct {
	waits   chan struct{} // a token where a lane's wait ends earlier than any before
	space   chan struct{} // a token where a blocked Submit may look again
	closed  chan struct{} // closed by the first Drain or the end of Run
	drained chan struct{} // closed when draining and nothing is in flight
	ended   chan struct{} // closed when Run ends

	drainOnce sync.Once
	fail      context.CancelCauseFunc // ends Run with that error
	closing   bool                    // Submit refuses
	draining  bool                    // Drain was called
	endCause  error                   // why Run ended, once it has
}

// memory counts the events that were submitted and are not acknowledged.
type memory struct {
	inflight      int
	inflightBytes int64
	waiting       int // blocked Submits
}

// topic is what the answers of the topic have shown.
type topic struct {
	policy     Batching
	batchBytes int64  // size of source documents that is known to fit a batch
	accepted   uint64 // sends that the topic has accepted
	// acceptedAt is the time of the last of them. busyShare is the share of the last answers
	// that said that the broker is busy.
	acceptedAt time.Time
	busyShare  float64
	// bodyLimit is the length of the longest body that is encoded: the topic has refused
	// longer ones, or they exceed maxBody.
	bodyLimit atomic.Int64
}

// pool are the workers. They start as work demands, up to one for each
// slot, and end with Run. At most one worker is woken at a time. Before it sends, it wakes the
// next one, so events that arrive meanwhile join its batch.
type pool struct {
	// sends are the batches in flight by slot. limit bounds those of each slot, but only one
	// large message is in flight.
	sends [slots]int
	limit int
	// last is the slot of the last batch.
	last slot
	// bodyBudget bounds the bodies of all batches in flight, except the large one.
	bodyBudget *semaphore.Weighted

	work          sync.Cond
	spawn         func() // starts a worker; nil before and after Run
	workers, idle int
	waking        bool
	group         sync.WaitGroup
}

// New makes a dispatcher. Run opens the connections.
func New(options Options) *Dispatcher {
	options = options.withDefaults()
	d := &Dispatcher{
		options:   options,
		metrics:   options.Metrics,
		rateLimit: newRateLimit(options.Metrics, options.Logger),
		retryLog:  options.Logger.Sample(&zerolog.BurstSampler{Burst: 5, Period: time.Minute}),
		ends: ends{
			waits:   make(chan struct{}, 1),
			space:   make(chan struct{}, 1),
			closed:  make(chan struct{}),
			drained: make(chan struct{}),
			ended:   make(chan struct{}),
		},
		lanes: lanes{byKey: make(map[string]*lane)},
		topic: topic{policy: options.Batching, batchBytes: maxBatchBytes},
		pool:  pool{limit: options.sends(options.Batching)},
	}
	d.work.L = &d.mu
	d.bodyBudget = semaphore.NewWeighted(max(options.MaxInflightBytes, smallestBodyBudget))
	d.bodyLimit.Store(maxBody)
	d.activity = &activity{longest: options.SendTimeout + callGrace}
	d.connections = newConnections(options, d.activity)
	d.metrics.inflight.Store(d)
	return d
}

// Submit accepts the next event of the stream. It blocks while the bounds are reached. It
// fails with the cause of ctx's end if ctx ends first, and with [ErrClosed] and the reason
// if the dispatcher ends first. The events of an aggregate must be submitted in order, so
// only one goroutine may submit at a time.
func (d *Dispatcher) Submit(ctx context.Context, item Item) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	size := int64(len(item.Event.Document))
	key := d.options.Encoder.SessionKey(item.Event.AggregateID)
	submitted := d.options.Tracer.Now()

	d.mu.Lock()
	defer d.mu.Unlock()
	for !d.closing && !d.fits(size) {
		if err := d.awaitSpace(ctx); err != nil {
			return err
		}
	}
	if d.closing {
		return d.closedError()
	}
	e := d.lanes.entry()
	e.item, e.size, e.submitted = item, size, submitted
	d.inflight++
	d.inflightBytes += size
	d.lanes.add(key, e)
	d.wake()
	return nil
}

// fits reports whether one more event may be in flight. An event larger than the bound fits
// if it is alone.
func (d *Dispatcher) fits(size int64) bool {
	return d.inflight == 0 ||
		d.inflight < d.options.MaxInflightEvents && d.inflightBytes+size <= d.options.MaxInflightBytes
}

// awaitSpace releases the mutex and waits until an event has left.
func (d *Dispatcher) awaitSpace(ctx context.Context) (err error) {
	d.waiting++
	d.mu.Unlock()
	select {
	case <-d.space:
	case <-d.closed:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	d.mu.Lock()
	d.waiting--
	return err
}

// notifySpace lets a blocked Submit look again. The caller holds the mutex.
func (d *Dispatcher) notifySpace() {
	if d.waiting > 0 {
		notify(d.space)
	}
}

// notify puts a token into a channel, which may have one already.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// closedError says why Submit refuses. After the end it does not need the mutex.
func (d *Dispatcher) closedError() error {
	if d.endCause == nil {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrClosed, d.endCause)
}

// Run publishes until ctx ends, until the dispatcher is drained (then it returns nil), or
// until a fault ends the term. It drops events that are not acknowledged by then; the next
// term reads them again from its resume token. When Run returns, no send is in flight, and
// Acked is not called any more. Run can be called once.
func (d *Dispatcher) Run(ctx context.Context) error {
	runCtx, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	d.mu.Lock()
	if d.fail != nil {
		d.mu.Unlock()
		return errors.New("run dispatcher: it has run before")
	}
	d.fail = fail
	d.spawn = func() {
		d.group.Go(func() { (&worker{d: d}).run(runCtx) })
	}
	d.wake()
	d.mu.Unlock()

	d.group.Go(func() { d.connections.run(runCtx, fail) })
	d.group.Go(func() { d.endWaits(runCtx) })
	d.supervise(runCtx)
	if isClosed(d.drained) {
		fail(errDrained)
	}
	cause := context.Cause(runCtx)
	if errors.Is(cause, errDrained) {
		cause = nil
	}

	d.mu.Lock()
	d.spawn = nil
	d.endCause = cause
	d.close()
	close(d.ended)
	d.work.Broadcast()
	d.mu.Unlock()

	d.group.Wait()
	d.metrics.inflight.CompareAndSwap(d, nil)
	if isClosed(d.drained) { // even if something else has ended Run meanwhile
		return nil
	}
	return cause
}

// close makes Submit refuse events. The caller holds the mutex.
func (d *Dispatcher) close() {
	if !d.closing {
		d.closing = true
		close(d.closed)
	}
}

// Drain refuses further events and waits until the accepted ones are acknowledged. Run then
// returns nil. If ctx ends first, the error is its cause, the remaining events stay in flight, and the caller
// must end Run. If Run ends first, the error is [ErrClosed] with the reason.
func (d *Dispatcher) Drain(ctx context.Context) error {
	d.mu.Lock()
	d.draining = true
	d.close()
	d.endDrain()
	d.mu.Unlock()

	select {
	case <-d.drained:
	case <-ctx.Done():
	case <-d.ended:
	}
	switch {
	case isClosed(d.drained): // whatever else has happened
		return nil
	case isClosed(d.ended):
		return d.closedError()
	default:
		events, _ := d.Inflight()
		return fmt.Errorf("drain dispatcher: %d events are left: %w", events, context.Cause(ctx))
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// endDrain records that draining is complete, if it is. The caller holds the mutex.
func (d *Dispatcher) endDrain() {
	if d.draining && d.inflight == 0 {
		d.drainOnce.Do(func() { close(d.drained) })
	}
}

// Inflight counts the events that were submitted and are not acknowledged.
func (d *Dispatcher) Inflight() (events int, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inflight, d.inflightBytes
}

// wake wakes a worker if there is work and no other worker is woken. The caller holds the
// mutex.
func (d *Dispatcher) wake() {
	if d.waking || d.spawn == nil {
		return
	}
	if _, found := d.nextSlot(); !found {
		return
	}
	switch {
	case d.idle > 0:
		d.waking = true
		d.work.Signal()
	case d.workers < 2*d.limit+1:
		d.waking = true
		d.workers++
		d.spawn()
	}
}

// nextSlot returns the slot in which a batch may be taken; false if none. Failing lanes have as many
// slots as the others, and only those. Large messages have one slot: their bodies and the
// SDK's copies of them are most of the memory. Slots take turns, because a throttled namespace takes
// fewer batches than one slot has. The caller holds the mutex.
func (d *Dispatcher) nextSlot() (next slot, ok bool) {
	for i := range d.lanes.ready {
		s := (int(d.last) + 1 + i) % len(d.lanes.ready)
		limit := d.limit
		if slot(s) == slotLarge {
			limit = 1
		}
		if d.lanes.ready[s].head != nil && d.sends[s] < limit {
			return slot(s), true
		}
	}
	return 0, false
}

// awaitWork waits until a lane is ready; false means that Run ends. woken says that wake
// sent this worker.
func (d *Dispatcher) awaitWork(ctx context.Context, woken bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if woken {
			d.waking = false
		}
		if ctx.Err() != nil {
			return false
		}
		if _, found := d.nextSlot(); found {
			return true
		}
		d.idle++
		d.work.Wait()
		d.idle--
		woken = true
	}
}

// endWaits makes lanes ready when their wait is over, until ctx ends.
func (d *Dispatcher) endWaits(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-d.waits:
		case <-ctx.Done():
			return
		}
		d.mu.Lock()
		now := time.Now()
		next := d.lanes.endWaits(now)
		d.wake()
		d.mu.Unlock()
		if !next.IsZero() {
			timer.Reset(next.Sub(now))
		}
	}
}
