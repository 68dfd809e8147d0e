package publish

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// worker takes batches, encodes and sends them, one at a time. Its buffers are
// reused.
type worker struct {
	d        *Dispatcher
	policy   Batching // that batch was taken by
	slot     slot     // of the batch; the dispatcher's mutex guards it
	batch    []*entry
	messages []*event.Message
	traced   []trace.SpanContext // of the batch's sampled events
	tickets  []uint64
	failure  failure // of the last send
	// bodies is the length of the batch's bodies, reserved is what of the budget they use.
	bodies, reserved int64

	slowTimer *time.Timer
	slowNoted chan struct{} // gets a token when the timer's function has run
}

// run works until Run's ctx ends.
func (w *worker) run(ctx context.Context) {
	for woken := true; w.d.awaitWork(ctx, woken); woken = false {
		done, err := w.d.rateLimit.wait(ctx)
		if err != nil {
			return
		}
		w.take()
		done(len(w.batch))
		if len(w.batch) == 0 {
			continue
		}
		more := w.publish(ctx)
		w.done()
		if !more {
			w.endSpans()
			return
		}
	}
}

// publish sends the batch, and returns the rest to its lanes. False means that Run ends.
func (w *worker) publish(ctx context.Context) bool {
	if !w.encode(ctx) {
		return false
	}
	for ambiguous := 0; len(w.batch) > 0; {
		accepted, f := w.send(ctx)
		switch {
		case f == nil:
			w.published(accepted)
			return true
		case ctx.Err() != nil:
			return false
		}
		fault, broken := faultOf(f.err)
		w.d.metrics.sendErrors.WithLabelValues(fault.String()).Inc()
		if fault == FaultDisconnected || fault == FaultTransient || fault == FaultBusy {
			w.d.options.Availability.SendFailed(f.err)
		}
		switch fault {
		case FaultTooLarge, FaultBatch, FaultMixed:
			// A link that ended reports its reason to every later send, although another
			// message was the reason. So a single event is tried once on each connection.
			if broken && len(w.batch) == 1 && ambiguous < w.d.options.Connections {
				ambiguous++
				continue
			}
		default:
		}
		switch {
		case fault == FaultBusy:
			w.busy(f)
			return true
		case fault == FaultTooLarge:
			if !w.tooLarge(ctx, f.err) {
				return false
			}
		case len(w.batch) > 1 && (fault == FaultBatch || fault == FaultMixed):
			w.degrade(fault, f.err)
			return true
		default:
			return w.failed(ctx, fault, f)
		}
	}
	return true
}

// send sends the batch once, when a connection allows it. A failure with ctx ended
// means that Run ends.
func (w *worker) send(ctx context.Context) (accepted int, failed *failure) {
	w.failure = failure{events: len(w.batch)}
	f := &w.failure
	w.d.mu.Lock()
	f.before = w.d.accepted
	avoid, risky, alone, fresh := uint64(0), false, false, true
	if s := w.batch[0].lane.setback; s != nil {
		avoid, risky, alone, fresh = s.connection, s.risky, s.alone(), false
	}
	if w.slot == slotLarge {
		// A large message occupies its link for long, and the SDK keeps its buffer as long as
		// the link. So only one link carries large messages, and the other sends avoid it.
		risky, alone = true, true
	}
	w.d.mu.Unlock()
	if alone {
		if err := w.d.connections.enter(ctx); err != nil {
			return 0, f
		}
		defer w.d.connections.leave()
	}
	conn, err := w.d.connections.acquire(ctx, avoid, risky)
	if err != nil {
		return 0, f
	}
	w.messages = w.messages[:0]
	for _, e := range w.batch {
		w.messages = append(w.messages, &e.message)
	}
	w.watchSlow()
	sendCtx, cancel := context.WithTimeout(ctx, w.d.options.SendTimeout)
	start := time.Now()
	call := w.d.activity.begin()
	sendCtx, span := w.beginSend(sendCtx)
	accepted, err = conn.sender.Send(sendCtx, w.messages)
	span.EndSend(accepted, err)
	w.d.activity.end(call)
	took := time.Since(start)
	f.timedOut = err != nil && (sendCtx.Err() != nil || errors.Is(err, context.DeadlineExceeded))
	cancel()
	if !w.slowTimer.Stop() {
		<-w.slowNoted
	}
	clear(w.messages)

	if err == nil && (accepted < 1 || accepted > len(w.batch)) {
		w.d.fail(fmt.Errorf("publish to the topic: sender accepted %d of %d messages", accepted, len(w.batch)))
		return 0, f
	}
	f.connection, f.served = w.d.connections.release(conn, err, fresh)
	if err != nil {
		f.err, f.at = err, time.Now()
		return 0, f
	}
	w.d.options.Availability.Accepted()
	w.d.rateLimit.accepted(accepted)
	span.Observe(w.d.metrics.sendDuration, took.Seconds())
	w.d.metrics.batchEvents.Observe(float64(accepted))
	return accepted, nil
}

// published acknowledges the first n events of the batch. The others did not fit and return
// to their lanes.
func (w *worker) published(n int) {
	w.d.learnBatchBytes(w.batch, n)
	w.noteAcceptedBatch(n)
	claims := 0
	for _, e := range w.batch[:n] {
		if e.message.ClaimCheck {
			claims++
		}
		e.span.End(nil)
	}
	w.d.metrics.published[resultClaimCheck].Add(float64(claims))
	w.d.metrics.published[resultPublished].Add(float64(n - claims))
	if !time.Now().Before(w.d.options.GoodFrom) {
		w.d.options.Breaker.Good(n)
	}
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
	for _, e := range entries {
		d.leaveMemory(e)
	}
	held := d.lanes.remove(entries, oldest)
	if !accepted && d.lanes.setbacks == 0 {
		d.options.Availability.NoneWaits()
	}
	if accepted {
		d.accepted++
		d.acceptedAt = time.Now()
		d.busyShare -= d.busyShare / busySends
		d.quarantined = 0
		d.lanes.topicAccepts(held)
	}
	if d.waiting > 0 {
		d.notifySpace()
	}
	d.endDrain()
	d.wake()
}

// putBack keeps the first n of the batch and returns the others to their lanes.
func (w *worker) putBack(n int) {
	if n >= len(w.batch) {
		return
	}
	w.d.mu.Lock()
	w.d.lanes.putBack(w.batch[n:])
	w.d.wake()
	w.d.mu.Unlock()
	w.batch = w.batch[:n]
}
