package publish

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The namespace is throttled if more than the share namespaceBusy of about the last
// busySends answers say so, not counting those to keys that are known to be busy alone.
const (
	namespaceBusy = 1.0 / 4
	busySends     = 64
)

// failure is one failed send of a batch.
type failure struct {
	fault Fault
	// timedOut says that the broker did not answer in time. broken says that the connection
	// is no longer usable.
	timedOut, broken bool
	err              error
	at               time.Time
	// events is the size of the batch. mixed says that a busy batch has several session keys.
	events int
	mixed  bool
	// connection is the id of the connection, and served its number of completed sends.
	connection, served uint64
	// before and accepted count the sends that the topic had accepted when this send began
	// and when it failed.
	before, accepted uint64
}

// failed returns the batch to its lanes to wait, in smaller parts if its own events may be
// the reason. It quarantines an event that is the reason. False means that Run ends.
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
	message, span := w.batch[0].message.MessageID, w.batch[0].span

	d.mu.Lock()
	s := w.note(f)
	w.noteRefusedBatch(*f)
	if f.events == 1 && s.conclusive(f.at, d.options.MaxAttempts, d.aloneFor()) {
		reason := s.explain(f.at)
		known := false
		if !s.searched && d.options.Known != nil {
			s.searched = true
			d.mu.Unlock()
			known = d.options.Known(ctx, &w.batch[0].item)
			d.mu.Lock()
		}
		var err error
		if !known {
			err = d.hold(w.batch[0], reason, "correct the topic's settings")
		}
		if err == nil {
			d.quarantined++
			d.mu.Unlock()
			return w.quarantine(ctx, 0, reason)
		}
		if d.options.EndIfRefused {
			d.mu.Unlock()
			d.fail(err)
			return false
		}
	}
	everything := s.refused && !s.explained && !s.held && s.failures >= splitAfter
	unsure := f.events == 1 && !s.sound && s.attempts+s.unaided >= d.options.MaxAttempts
	failures := s.failures
	w.wait(s.notBefore)
	d.mu.Unlock()

	if everything {
		if err := d.options.Availability.EverythingRefused(f.err); err != nil && d.options.EndIfRefused {
			d.fail(fmt.Errorf("publish event %s: %w", message, err))
			return false
		}
	}
	if unsure {
		// No other connection exists to compare with, and nothing else uses this one.
		d.connections.replace(f.connection, f.err)
	}
	if failures == splitAfter {
		d.stumbles.Warn().Err(f.err).Str("messageId", message).EmbedObject(span).Int("events", f.events).Msg("sending fails repeatedly; retrying")
	}
	return true
}

// busy handles a busy answer: either the namespace is throttled, so nothing is sent for a
// while, or one of its partitions is, so only the keys of the batch wait, as long as the
// topic accepts most of the others. A key is known to be busy alone if its last sends were
// refused, and the topic has accepted others since the last of them.
func (w *worker) busy(f *failure) {
	d := w.d
	f.fault = FaultBusy
	f.mixed = w.batch[0].lane != w.batch[len(w.batch)-1].lane
	d.mu.Lock()
	last := w.batch[0].lane.setback
	known := !f.mixed && last != nil && last.failures >= splitAfter-1 && d.accepted > last.accepted
	if !known {
		d.busyShare += (1 - d.busyShare) / busySends
	}
	namespace := !known && (!d.rateLimit.free.Load() || d.busyShare > namespaceBusy || f.at.Sub(d.acceptedAt) > busyWait)
	s := w.note(f)
	if !namespace {
		w.wait(s.notBefore)
	}
	d.mu.Unlock()
	if namespace {
		d.rateLimit.refused(f.err)
		w.putBack(0)
	}
}

// note adds a failure to the setbacks of the batch's lanes, and returns the setback of the
// first lane. The caller holds the mutex.
func (w *worker) note(f *failure) *setback {
	l := &w.d.lanes
	f.accepted = w.d.accepted
	for i, e := range w.batch {
		if i == 0 || w.batch[i-1].lane != e.lane {
			l.setback(e.lane).note(*f)
		}
	}
	s := w.batch[0].lane.setback
	if !s.explained {
		// The topic accepts nothing: the more lanes wait, the less often each of them retries.
		s.notBefore = s.notBefore.Add(time.Duration(len(l.waiting)/len(w.batch)) * time.Second / outageRate)
	}
	return s
}

// wait returns the batch to its lanes, which wait until the given time. The caller holds
// the mutex.
func (w *worker) wait(until time.Time) {
	d := w.d
	for _, e := range w.batch {
		e.lane.setback.waits = true
		e.lane.setback.notBefore = until // of one batch, they leave together
	}
	d.lanes.putBack(w.batch)
	for _, e := range w.batch {
		if ln := e.lane; ln != nil { // otherwise it has left memory
			d.unloadReloaded(ln)
		}
	}
	w.batch = w.batch[:0]
	if !d.lanes.waiting[0].setback.notBefore.Before(until) {
		d.notifyWaits()
	}
}

// aloneFor is how long the only failing event must have failed to be at fault; 0 if other
// events fail too. The caller holds the mutex.
func (d *Dispatcher) aloneFor() time.Duration {
	if d.lanes.setbacks > 1 {
		return 0
	}
	return aloneFor << min(d.quarantined, 10)
}
