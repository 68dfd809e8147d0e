package publish

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/pkg/backoff"
	"github.com/penstock-cdc/penstock/pkg/event"
)

// splitAfter is how many times a batch fails in a passing way before it is halved:
// one message that the broker stumbles over must not hold up its neighbours.
const splitAfter = 3

// worker takes batches, encodes and sends them, one at a time. Its buffers are
// reused.
type worker struct {
	d        *Dispatcher
	policy   Batching // that batch was taken by
	batch    []*entry
	messages []*event.Message
	tickets  []uint64
}

// run works until Run's ctx ends.
func (w *worker) run(ctx context.Context) {
	for woken := true; w.d.awaitWork(ctx, woken); woken = false {
		done, err := w.d.pace.wait(ctx)
		if err != nil {
			return
		}
		w.policy, w.batch = w.d.take(w.batch[:0])
		done(len(w.batch))
		if !w.publish(ctx) {
			return
		}
	}
}

// awaitWork waits until a lane is ready; false means that Run ends. woken says
// that the worker was sent to look for work.
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
		if d.lanes.readyHead != nil {
			return true
		}
		d.idle++
		d.work.Wait()
		d.idle--
		woken = true
	}
}

// take fills a batch, which stays empty where another worker was faster.
func (d *Dispatcher) take(batch []*entry) (Batching, []*entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maxEvents := 1
	if d.policy != BatchingOff {
		maxEvents = d.pace.batch(d.options.MaxBatchEvents)
	}
	batch = d.lanes.take(batch, d.policy == BatchingMixed, maxEvents, d.batchBytes)
	d.wake()
	return d.policy, batch
}

// publish brings the batch to the topic, or what is left of it back to its lanes.
// False means that Run ends.
func (w *worker) publish(ctx context.Context) bool {
	if !w.encode(ctx) {
		return false
	}
	retry := newBackoff()
	doubts := 0
	for failures := 0; len(w.batch) > 0; {
		accepted, err := w.send(ctx)
		switch {
		case err == nil:
			w.published(accepted)
			return true
		case ctx.Err() != nil:
			return false
		}
		fault, broken := faultOf(err)
		w.d.metrics.sendErrors.WithLabelValues(fault.String()).Inc()
		if broken && doubts < w.d.options.Connections && w.doubts(fault) {
			doubts++
			continue
		}
		switch fault {
		case FaultBusy:
			w.putBack(0)
			return true
		case FaultRefused, FaultBatch:
			return w.refused(fault, err)
		case FaultTooLarge:
			if !w.tooLarge(ctx, err) {
				return false
			}
			continue
		case FaultFatal:
			w.d.fail(fmt.Errorf("publish to the topic: %w", err))
			return false
		}
		failures++
		if failures == splitAfter {
			w.d.stumbles.Warn().Err(err).Str("messageId", w.batch[0].message.MessageID).
				Int("events", len(w.batch)).Msg("sending fails repeatedly; trying on")
		}
		if failures >= splitAfter {
			w.putBack((len(w.batch) + 1) / 2)
		}
		if backoff.Wait(ctx, retry.Next()) != nil {
			return false
		}
		done, err := w.d.pace.wait(ctx)
		if err != nil {
			return false
		}
		done(len(w.batch))
	}
	return true
}

// doubts tells whether a fault that would have consequences may be none of the batch's,
// from a connection that is broken: a link that ended says to every later send why it
// did, though another message was the reason, or a token that has run out since. Each
// connection may be asked once.
func (w *worker) doubts(fault Fault) bool {
	switch fault {
	case FaultFatal:
		return true
	case FaultTooLarge, FaultRefused, FaultBatch: // of a batch they cost little
		return len(w.batch) == 1
	default:
		return false
	}
}

// encode makes the messages of the batch. What cannot be encoded goes to the
// quarantine and leaves it. False means that Run ends.
func (w *worker) encode(ctx context.Context) bool {
	for i := 0; i < len(w.batch); {
		e := w.batch[i]
		if e.encoded {
			i++
			continue
		}
		message, err := w.d.options.Encoder.Encode(&e.item.Event, w.d.options.Epoch)
		if err != nil {
			if !w.quarantine(ctx, i, err) {
				return false
			}
			continue
		}
		if message.SessionKey != e.lane.key {
			w.d.fail(fmt.Errorf("encode event %s: its session key is %q, not %q: the order of its aggregate would be lost",
				message.MessageID, message.SessionKey, e.lane.key))
			return false
		}
		e.message, e.encoded = message, true
		i++
	}
	return true
}

// send sends the batch once, when a connection allows it. An error with ctx ended
// means that Run ends.
func (w *worker) send(ctx context.Context) (accepted int, err error) {
	conn, err := w.d.connections.acquire(ctx)
	if err != nil {
		return 0, err
	}
	w.messages = w.messages[:0]
	for _, e := range w.batch {
		w.messages = append(w.messages, &e.message)
	}
	sendCtx, cancel := context.WithTimeout(ctx, w.d.options.SendTimeout)
	start := time.Now()
	call := w.d.activity.begin()
	accepted, err = conn.sender.Send(sendCtx, w.messages)
	w.d.activity.end(call)
	took := time.Since(start)
	cancel()
	clear(w.messages)

	if err == nil && (accepted < 1 || accepted > len(w.batch)) {
		err = &SendError{Fault: FaultFatal, Err: fmt.Errorf("sender accepted %d of %d messages", accepted, len(w.batch))}
	}
	if err != nil {
		if fault, _ := faultOf(err); fault == FaultBusy {
			w.d.pace.refused(err)
		}
		w.d.connections.release(conn, err)
		return 0, err
	}
	w.d.connections.release(conn, nil)
	w.d.pace.accepted(accepted)
	w.d.metrics.sendDuration.Observe(took.Seconds())
	w.d.metrics.batchEvents.Observe(float64(accepted))
	return accepted, nil
}

// published acknowledges the first n of the batch. The others did not fit, and go
// back to their lanes, where any worker can take them.
func (w *worker) published(n int) {
	w.d.learnBatchBytes(w.batch, n)
	claims := 0
	for _, e := range w.batch[:n] {
		if e.message.ClaimCheck {
			claims++
		}
	}
	w.d.metrics.published[resultClaimCheck].Add(float64(claims))
	w.d.metrics.published[resultPublished].Add(float64(n - claims))
	w.settle(w.batch[:n])
	copy(w.batch, w.batch[n:])
	w.batch = w.batch[:len(w.batch)-n]
	w.putBack(0)
}

// settle acknowledges events of the batch and lets go of them.
func (w *worker) settle(entries []*entry) {
	w.tickets = w.tickets[:0]
	var bytes int64
	for _, e := range entries {
		w.tickets = append(w.tickets, e.item.Ticket)
		bytes += e.size
	}
	d := w.d
	d.options.Acked(w.tickets)
	d.metrics.inflight(-len(entries), -bytes)

	d.mu.Lock()
	defer d.mu.Unlock()
	d.inflight -= len(entries)
	d.inflightBytes -= bytes
	d.lanes.remove(entries)
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
