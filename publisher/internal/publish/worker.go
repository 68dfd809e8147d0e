package publish

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// slowSend is the time after which an unanswered send no longer occupies a regular slot:
// an event that the broker does not answer must not delay the others.
const slowSend = time.Second

// worker takes batches, encodes and sends them, one at a time. Its buffers are
// reused.
type worker struct {
	d        *Dispatcher
	policy   Batching // that batch was taken by
	slot     slot     // of the batch; the dispatcher's mutex guards it
	batch    []*entry
	messages []*event.Message
	tickets  []uint64
	failure  failure // of the last send
	// bodies is the length of the batch's bodies, reserved is what of the budget they use.
	bodies, reserved int64
}

// run works until Run's ctx ends.
func (w *worker) run(ctx context.Context) {
	for woken := true; w.d.awaitWork(ctx, woken); woken = false {
		if w.d.rateLimit.wait(ctx) != nil {
			return
		}
		w.take()
		w.d.rateLimit.spend(len(w.batch))
		if len(w.batch) == 0 {
			continue
		}
		err := w.publish(ctx)
		if err != nil {
			w.d.fail(err)
		}
		w.done()
		if err != nil {
			return
		}
	}
}

// take fills the batch, which stays empty if another worker was faster.
func (w *worker) take() {
	d := w.d
	d.mu.Lock()
	defer d.mu.Unlock()
	w.policy, w.batch = d.policy, w.batch[:0]
	var found bool
	if w.slot, found = d.nextSlot(); !found {
		return
	}
	maxEvents := 1
	if d.policy != BatchingOff && w.slot != slotLarge {
		maxEvents = d.rateLimit.batch(d.options.MaxBatchEvents)
	}
	d.sends[w.slot]++
	d.last = w.slot
	w.batch = d.lanes.take(w.batch, w.slot, d.policy == BatchingMixed, maxEvents, d.batchBytes)
	d.wake()
}

// done frees the slot of this worker's batch, and the memory of its bodies.
func (w *worker) done() {
	w.d.bodyBudget.Release(w.reserved)
	w.reserved = 0
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	w.d.sends[w.slot]--
	w.d.wake()
}

// publish sends the batch, and returns the rest to its lanes. Its error ends Run.
func (w *worker) publish(ctx context.Context) error {
	if err := w.encode(ctx); err != nil {
		return err
	}
	for ambiguous := 0; len(w.batch) > 0; {
		accepted, err := w.send(ctx)
		switch {
		case err != nil:
			return err
		case accepted > 0:
			w.published(accepted)
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		f := &w.failure
		w.d.metrics.sendErrors.WithLabelValues(f.fault.String()).Inc()
		single, noBatch := len(w.batch) == 1, f.fault == FaultBatch || f.fault == FaultMixed
		switch {
		case single && f.broken && (f.fault == FaultTooLarge || noBatch) && ambiguous < w.d.options.Connections:
			// A link that ended reports its reason to every later send, although another
			// message was the reason. So a single event is tried once on each connection.
			ambiguous++
		case f.fault == FaultTooLarge:
			if err := w.tooLarge(ctx, f); err != nil {
				return err
			}
		case noBatch && !single:
			w.d.mu.Lock()
			w.degrade(f)
			w.d.mu.Unlock()
			w.putBack(0)
			return nil
		case f.fault == FaultBusy:
			w.busy(f)
			return nil
		default:
			return w.failed(ctx, f)
		}
	}
	return nil
}

// send sends the batch once, when a connection allows it. If the send has failed, accepted is
// 0 and the worker has the failure. Its error ends Run.
func (w *worker) send(ctx context.Context) (accepted int, err error) {
	w.failure = failure{events: len(w.batch)}
	f := &w.failure
	w.d.mu.Lock()
	f.before = w.d.accepted
	fresh, large := w.batch[0].lane.setback == nil, w.slot == slotLarge
	w.d.mu.Unlock()
	conn, err := w.d.connections.acquire(ctx, large)
	if err != nil {
		return 0, err
	}
	w.messages = w.messages[:0]
	for _, e := range w.batch {
		w.messages = append(w.messages, &e.message)
	}
	noted := make(chan struct{})
	slow := time.AfterFunc(slowSend, func() {
		w.slow()
		close(noted)
	})
	sendCtx, cancel := context.WithTimeout(ctx, w.d.options.SendTimeout)
	start := time.Now()
	returned := w.d.activity.begin()
	accepted, err = conn.sender.Send(sendCtx, w.messages)
	returned()
	took := time.Since(start)
	cancel()
	if !slow.Stop() {
		<-noted
	}
	clear(w.messages)

	if err == nil && (accepted < 1 || accepted > len(w.batch)) {
		return 0, fmt.Errorf("publish to the topic: sender accepted %d of %d messages", accepted, len(w.batch))
	}
	w.d.connections.release(conn, err, fresh, large)
	if err != nil {
		f.err, f.at = err, time.Now()
		f.fault, f.broken = faultOf(err)
		return 0, nil
	}
	w.d.options.Availability.Accepted()
	w.d.rateLimit.took(accepted)
	w.batch[0].span.Observe(w.d.metrics.sendDuration, took.Seconds())
	w.d.metrics.batchEvents.Observe(float64(accepted))
	return accepted, nil
}

// published acknowledges the first n events of the batch. The others did not fit and return
// to their lanes.
func (w *worker) published(n int) {
	w.d.learnBatchBytes(w.batch, n)
	claims := 0
	for _, e := range w.batch[:n] {
		if e.message.ClaimCheck {
			claims++
		}
		e.span.End(nil)
	}
	w.d.metrics.published[resultClaimCheck].Add(float64(claims))
	w.d.metrics.published[resultPublished].Add(float64(n - claims))
	w.settle(w.batch[:n], true, true)
	copy(w.batch, w.batch[n:])
	w.batch = w.batch[:len(w.batch)-n]
	w.putBack(0)
}

// settle acknowledges events of the batch that the topic or the quarantine has, and
// releases them. oldest says that they are the oldest events of their lanes.
func (w *worker) settle(entries []*entry, accepted, oldest bool) {
	w.tickets = w.tickets[:0]
	for _, e := range entries {
		w.tickets = append(w.tickets, e.item.Ticket)
	}
	d := w.d
	d.options.Acked(w.tickets)

	d.mu.Lock()
	defer d.mu.Unlock()
	d.inflight -= len(entries)
	for _, e := range entries {
		d.inflightBytes -= e.size
	}
	d.lanes.remove(entries, oldest)
	if accepted {
		d.accepted++
		d.acceptedAt = time.Now()
		d.busyShare -= d.busyShare / busySends
		d.lanes.topicAccepts()
	}
	d.notifySpace()
	d.endDrain()
	d.wake()
}

// slow moves the batch to a slot of the lanes that fail if one is free.
func (w *worker) slow() {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if w.slot == slotRegular && w.d.sends[slotAlone] < w.d.limit {
		w.slot = slotAlone
		w.d.sends[slotRegular]--
		w.d.sends[slotAlone]++
	}
	w.d.wake()
}
