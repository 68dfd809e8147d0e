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

// failed returns the batch to its lanes to wait, in smaller parts if its own events may be
// the reason. It quarantines an event that is the reason. Its error ends Run.
func (w *worker) failed(ctx context.Context, f *failure) error {
	d := w.d
	switch f.fault {
	case FaultDisconnected, FaultTransient:
		d.options.Availability.SendFailed(f.err)
	case FaultFatal:
		if err := d.options.Availability.Refused(f.err); err != nil {
			return fmt.Errorf("publish to the topic: %w", err)
		}
	case FaultBatch, FaultMixed: // of a message alone
		f.fault = FaultRefused
	default:
	}
	if sendErr, ok := errors.AsType[*SendError](f.err); ok && sendErr.First && len(w.batch) > 1 {
		w.putBack(1)
		f.events = 1
	}
	message, span := w.batch[0].message.MessageID, w.batch[0].span

	d.mu.Lock()
	s, until := w.note(f)
	w.noteRefusedBatch(f)
	if f.events == 1 && s.event.conclusive(f, d.options.MaxAttempts, d.minRefusal()) {
		reason := s.event.explain(f.at)
		err := w.hold(ctx, s, reason)
		switch {
		case err == nil:
			d.quarantined++
			d.mu.Unlock()
			return w.quarantine(ctx, 0, reason)
		case d.options.EndIfRefused:
			d.mu.Unlock()
			return err
		}
		until = until.Add(spread(d.lanes.held)) // the more wait, the less often each is sent
	}
	topicRefuses := f.fault == FaultRefused && !s.topicWorks && !s.event.held && s.failures >= splitAfter
	unsure := f.events == 1 && !s.event.connectionWorks && s.event.refusals() >= d.options.MaxAttempts
	failures := s.failures
	w.wait(until)
	d.mu.Unlock()

	if topicRefuses {
		if err := d.options.Availability.EverythingRefused(f.err); err != nil && d.options.EndIfRefused {
			return fmt.Errorf("publish event %s: %w", message, err)
		}
	}
	if unsure {
		// No other connection exists to compare with, and nothing else uses this one.
		d.connections.replace(f.connection, f.err)
	}
	if failures == splitAfter {
		d.retryLog.Warn().Err(f.err).Str("messageId", message).EmbedObject(span).Int("events", f.events).Msg("sending fails repeatedly; retrying")
	}
	return nil
}

// busy handles a busy answer: either the namespace is throttled, so nothing is sent for a
// while, or one of its partitions is, so only the keys of the batch wait, as long as the
// topic accepts most of the others. A key is known to be busy alone if its last sends were
// refused, and the topic has accepted others since the last of them.
func (w *worker) busy(f *failure) {
	d := w.d
	d.options.Availability.SendFailed(f.err)
	f.mixed = w.batch[0].lane != w.batch[len(w.batch)-1].lane
	d.mu.Lock()
	before := w.batch[0].lane.setback
	known := !f.mixed && before != nil && before.failures >= splitAfter-1 && d.accepted > before.last.accepted
	if !known {
		d.busyShare += (1 - d.busyShare) / busySends
	}
	namespace := !known && (!d.rateLimit.free.Load() || d.busyShare > namespaceBusy || f.at.Sub(d.acceptedAt) > busyWait)
	_, until := w.note(f)
	if !namespace {
		w.wait(until)
	}
	d.mu.Unlock()
	if namespace {
		d.rateLimit.refused(f.err)
		w.putBack(0)
	}
}

// note adds a failure to the setbacks of the batch's lanes. It returns the setback of the
// first lane, and until when all of them must wait. The caller holds the mutex.
func (w *worker) note(f *failure) (s *setback, until time.Time) {
	l := &w.d.lanes
	f.accepted = w.d.accepted
	for i, e := range w.batch {
		if i > 0 && w.batch[i-1].lane == e.lane {
			continue
		}
		if wait := l.setback(e.lane).note(f); i == 0 {
			until = f.at.Add(wait)
		}
	}
	s = w.batch[0].lane.setback
	if !s.topicWorks {
		// The topic accepts nothing: the more lanes wait, the less often each of them retries.
		until = until.Add(spread(len(l.waiting) / len(w.batch)))
	}
	return s, until
}

// wait returns the batch to its lanes, which wait until the given time. The caller holds
// the mutex.
func (w *worker) wait(until time.Time) {
	for _, e := range w.batch {
		e.lane.setback.until = until // of one batch, they leave together
	}
	w.putBackLocked(0)
	if !w.d.lanes.waiting[0].setback.until.Before(until) {
		notify(w.d.waits)
	}
}

// putBack keeps the first n of the batch and returns the others to their lanes.
func (w *worker) putBack(n int) {
	if n >= len(w.batch) {
		return
	}
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	w.putBackLocked(n)
	w.d.wake()
}

// putBackLocked is putBack for a caller that holds the mutex. Lanes that wait do not keep
// events in memory that can be read again.
func (w *worker) putBackLocked(n int) {
	rest := w.batch[n:]
	w.batch = w.batch[:n]
	w.d.lanes.putBack(rest)
	for _, e := range rest {
		if ln := e.lane; ln != nil && ln.state == laneWaiting { // without a lane, it has left memory
			w.d.unloadReloaded(ln)
		}
	}
}
