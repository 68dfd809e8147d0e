package publish

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// failure is one failed send of a batch.
type failure struct {
	fault Fault
	// timedOut says that the broker did not answer in time. broken says that the connection
	// is no longer usable.
	timedOut, broken bool
	err              error
	at               time.Time
	// events is the size of the batch.
	events int
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
	if f.events == 1 && s.conclusive(f.at, d.options.MaxAttempts, d.options.GiveUpAfter, d.aloneFor()) {
		d.quarantined++
		d.mu.Unlock()
		return w.refused(ctx, s.explain(f.at))
	}
	everything := s.refused && !s.explained && s.failures >= splitAfter
	unsure := f.events == 1 && !s.sound && s.attempts+s.unaided >= d.options.MaxAttempts
	failures := s.failures
	w.wait(s.notBefore)
	d.mu.Unlock()

	if everything {
		if err := d.options.Availability.EverythingRefused(f.err); err != nil {
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
	w.batch = w.batch[:0]
	d.metrics.delayed.Set(float64(len(d.lanes.waiting)))
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
