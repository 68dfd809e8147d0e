package publish

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// slowSend is after what time an unanswered send no longer takes the place of
// another: an event that the broker does not answer must not hold up the others.
const slowSend = time.Second

// worker takes batches, encodes and sends them, one at a time. Its buffers are
// reused.
type worker struct {
	d        *Dispatcher
	policy   Batching // that batch was taken by
	suspect  bool     // batch counts among the suspects; the dispatcher's mutex guards it
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
		w.take()
		done(len(w.batch))
		if len(w.batch) == 0 {
			continue
		}
		more := w.publish(ctx)
		w.done()
		if !more {
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
		if d.hasWork() {
			return true
		}
		d.idle++
		d.work.Wait()
		d.idle--
		woken = true
	}
}

// hasWork reports whether a batch may be taken; the mutex is held. Suspects have as
// many sends as the others, but never one of theirs.
func (d *Dispatcher) hasWork() bool {
	return d.lanes.ready.head != nil && d.sends < d.limit ||
		d.lanes.suspects.head != nil && d.suspectSends < d.limit
}

// take fills the batch, which stays empty if another worker was faster.
func (w *worker) take() {
	d := w.d
	d.mu.Lock()
	defer d.mu.Unlock()
	w.policy, w.batch = d.policy, w.batch[:0]
	if !d.hasWork() {
		return
	}
	maxEvents := 1
	if d.policy != BatchingOff {
		maxEvents = d.pace.batch(d.options.MaxBatchEvents)
	}
	from := &d.lanes.ready
	if w.suspect = from.head == nil || d.sends >= d.limit; w.suspect {
		from = &d.lanes.suspects
		d.suspectSends++
	} else {
		d.sends++
	}
	w.batch = d.lanes.take(w.batch, from, d.policy == BatchingMixed, maxEvents, d.batchBytes)
	d.wake()
}

// done lets another batch be taken in the place of this worker's.
func (w *worker) done() {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if w.suspect {
		w.d.suspectSends--
	} else {
		w.d.sends--
	}
	w.d.wake()
}

// slow counts the batch among the suspects from now on, if there is room.
func (w *worker) slow() {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if !w.suspect && w.d.suspectSends < w.d.limit {
		w.suspect = true
		w.d.sends--
		w.d.suspectSends++
		w.d.wake()
	}
}

// publish brings the batch to the topic, or what is left of it back to its lanes.
// False means that Run ends.
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
		switch fault {
		case FaultTooLarge, FaultBatch, FaultMixed:
			// A link that ended tells every later send why it did, though another message
			// was the reason: for an event alone each connection is asked once.
			if broken && len(w.batch) == 1 && ambiguous < w.d.options.Connections {
				ambiguous++
				continue
			}
		default:
		}
		switch {
		case fault == FaultBusy:
			w.putBack(0)
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

// send sends the batch once, when a connection allows it. A failure with ctx ended
// means that Run ends.
func (w *worker) send(ctx context.Context) (accepted int, failed *failure) {
	f := failure{events: len(w.batch)}
	w.d.mu.Lock()
	f.before = w.d.accepted
	avoid, risky, alone, fresh := uint64(0), false, false, true
	if s := w.batch[0].lane.setback; s != nil {
		avoid, risky, alone, fresh = s.connection, s.risky, s.alone(), false
	}
	w.d.mu.Unlock()
	if alone {
		if err := w.d.connections.enter(ctx); err != nil {
			return 0, &f
		}
		defer w.d.connections.leave()
	}
	conn, err := w.d.connections.acquire(ctx, avoid, risky)
	if err != nil {
		return 0, &f
	}
	w.messages = w.messages[:0]
	for _, e := range w.batch {
		w.messages = append(w.messages, &e.message)
	}
	// What turns slow runs beside the send and has ended when the send is over.
	turned := make(chan struct{})
	turning := time.AfterFunc(slowSend, func() { w.slow(); close(turned) })
	sendCtx, cancel := context.WithTimeout(ctx, w.d.options.SendTimeout)
	start := time.Now()
	call := w.d.activity.begin()
	accepted, err = conn.sender.Send(sendCtx, w.messages)
	w.d.activity.end(call)
	took := time.Since(start)
	f.timedOut = err != nil && (sendCtx.Err() != nil || errors.Is(err, context.DeadlineExceeded))
	cancel()
	if !turning.Stop() {
		<-turned
	}
	clear(w.messages)

	if err == nil && (accepted < 1 || accepted > len(w.batch)) {
		w.d.fail(fmt.Errorf("publish to the topic: sender accepted %d of %d messages", accepted, len(w.batch)))
		return 0, &f
	}
	f.connection, f.served = w.d.connections.release(conn, err, fresh)
	if err != nil {
		if fault, _ := faultOf(err); fault == FaultBusy {
			w.d.pace.refused(err)
		}
		f.err, f.at = err, time.Now()
		return 0, &f
	}
	w.d.options.Availability.Accepted()
	w.d.pace.accepted(accepted)
	w.d.metrics.sendDuration.Observe(took.Seconds())
	w.d.metrics.batchEvents.Observe(float64(accepted))
	return accepted, nil
}

// failed has the batch wait in its lanes, in smaller parts if its own events may be
// the reason, or quarantines the event that is. False means that Run ends.
func (w *worker) failed(ctx context.Context, fault Fault, f *failure) bool {
	d := w.d
	if fault == FaultFatal {
		if err := d.options.Availability.Refused(f.err); err != nil {
			d.fail(fmt.Errorf("publish to the topic: %w", err))
			return false
		}
	}
	if sendErr, ok := errors.AsType[*SendError](f.err); ok && sendErr.First && len(w.batch) > 1 {
		w.putBack(1)
		f.events = 1
	}
	if fault == FaultBatch || fault == FaultMixed { // of a message alone
		fault = FaultRefused
	}
	f.fault = fault
	_, f.broken = faultOf(f.err)
	message := w.batch[0].message.MessageID

	d.mu.Lock()
	f.accepted = d.accepted
	for i, e := range w.batch {
		if i == 0 || w.batch[i-1].lane != e.lane {
			d.lanes.setback(e.lane).note(*f)
		}
	}
	s := w.batch[0].lane.setback
	if !s.explained {
		// Nothing gets through: the more lanes wait, the rarer each of them tries.
		s.notBefore = s.notBefore.Add(time.Duration(len(d.lanes.waiting)/len(w.batch)) * time.Second / outageRate)
	}
	w.noteRefusedBatch(*f)
	alone := time.Duration(0)
	if d.lanes.setbacks == 1 {
		alone = aloneFor << min(d.quarantined, 10)
	}
	if f.events == 1 && s.conclusive(f.at, d.options.MaxAttempts, d.options.GiveUpAfter, alone) {
		d.quarantined++
		d.mu.Unlock()
		return w.refused(ctx, s.explain(f.at))
	}
	everything := s.refused && !s.explained && s.failures >= splitAfter
	failures, unsure := s.failures, f.events == 1 && !s.sound && s.attempts+s.unaided >= d.options.MaxAttempts
	for _, e := range w.batch {
		e.lane.setback.waits = true
		e.lane.setback.notBefore = s.notBefore // of one batch, they leave together
	}
	d.lanes.putBack(w.batch)
	next := !d.lanes.waiting[0].setback.notBefore.Before(s.notBefore)
	d.metrics.delayed.Set(float64(len(d.lanes.waiting)))
	d.mu.Unlock()
	if next {
		d.notifyWaits()
	}
	if everything {
		if err := d.options.Availability.EverythingRefused(f.err); err != nil {
			d.fail(fmt.Errorf("publish event %s: %w", message, err))
			return false
		}
	}
	if unsure {
		// There is no other connection to ask, and nothing else uses this one.
		d.connections.replace(f.connection, f.err)
	}
	if failures == splitAfter {
		d.stumbles.Warn().Err(f.err).Str("messageId", message).Int("events", f.events).Msg("sending fails repeatedly; retrying")
	}
	w.batch = w.batch[:0]
	return true
}

// published acknowledges the first n of the batch. The others did not fit, and go
// back to their lanes, where any worker can take them.
func (w *worker) published(n int) {
	w.d.learnBatchBytes(w.batch, n)
	w.noteAcceptedBatch(n)
	claims := 0
	for _, e := range w.batch[:n] {
		if e.message.ClaimCheck {
			claims++
		}
	}
	w.d.metrics.published[resultClaimCheck].Add(float64(claims))
	w.d.metrics.published[resultPublished].Add(float64(n - claims))
	w.d.options.Breaker.Good(n)
	w.settle(w.batch[:n], true)
	copy(w.batch, w.batch[n:])
	w.batch = w.batch[:len(w.batch)-n]
	w.putBack(0)
}

// settle acknowledges events of the batch, which the topic or the quarantine has, and
// lets go of them.
func (w *worker) settle(entries []*entry, accepted bool) {
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
	if accepted {
		d.accepted++
		d.quarantined = 0
		d.lanes.endUnexplained()
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
