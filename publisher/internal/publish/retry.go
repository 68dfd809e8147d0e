package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

const (
	// splitAfter is how many times a batch fails before it is halved without further
	// evidence, so that one message that the broker cannot process does not delay the
	// others.
	splitAfter = 3
	// outageRate is the approximate bound for the sends per second of waiting lanes while
	// the topic accepts nothing.
	outageRate = 50
	// maxReasons is how many different refusals of an event are kept for its quarantine.
	maxReasons = 3
	// The namespace is throttled if more than the share namespaceBusy of about the last
	// busySends answers say so, not counting those to keys that are known to be busy alone.
	namespaceBusy = 1.0 / 4
	busySends     = 64
)

// failure is one failed send of a batch.
type failure struct {
	fault Fault
	// broken says that the connection is no longer usable.
	broken bool
	err    error
	at     time.Time
	// events is the size of the batch. mixed says that a busy batch has several session keys.
	events int
	mixed  bool
	// before and accepted count the sends that the topic had accepted when this send began
	// and when it failed.
	before, accepted uint64
}

// setback summarizes the failed sends of the events at a lane's head: how long the lane
// waits, in which batches its events may be sent, and how often its first event was refused.
type setback struct {
	until time.Time // the end of the lane's wait; zero if it does not wait
	retry poll.Backoff
	// alone says that the events are sent apart from those of lanes that do not fail: in
	// separate batches and send slots.
	alone     bool
	maxEvents int // of a batch; 0: no bound

	failures int       // in a row
	begun    time.Time // of the first failure
	last     failure
	// topicWorks says that the topic accepted other events before the last failure and since
	// the one before it. So the batch is the reason. Otherwise the topic may be.
	topicWorks bool

	// refusals counts the explicit refusals of the first event alone while the topic accepted
	// others, and unconfirmed those while it accepted none. reasons are the different errors.
	refusals, unconfirmed int
	reasons               []string
}

// note adds a failure, and returns how long the lane must wait because of it.
func (s *setback) note(f *failure) time.Duration {
	since := f.before
	if s.failures > 0 {
		since = s.last.accepted
	}
	s.topicWorks = f.accepted > since
	s.failures++
	s.last = *f
	if s.begun.IsZero() {
		s.begun = f.at
	}
	s.alone = s.alone || f.fault == FaultRefused || f.fault == FaultTransient || s.failures >= splitAfter
	switch {
	case f.events == 1:
		s.maxEvents = 1
		if f.fault == FaultRefused {
			s.refused(f.err.Error())
		}
	case f.fault == FaultRefused || s.failures >= splitAfter || s.topicWorks && s.alone:
		s.maxEvents = (f.events + 1) / 2
		s.retry.Reset() // halving the batch is progress
	}
	wait := s.retry.Next()
	if f.fault == FaultBusy && !f.mixed {
		wait = max(wait, busyWait)
	}
	return wait
}

// refused counts a refusal of the first event alone.
func (s *setback) refused(reason string) {
	if s.topicWorks {
		s.refusals++
	} else {
		s.unconfirmed++
	}
	if len(s.reasons) < maxReasons && !slices.Contains(s.reasons, reason) {
		s.reasons = append(s.reasons, reason)
	}
}

// explain is the reason for the quarantine.
func (s *setback) explain(now time.Time) *event.ContractError {
	return &event.ContractError{
		Reason: event.ReasonRefused,
		Detail: fmt.Sprintf("the topic refused the event in %d attempts over %s: %s",
			s.refusals+s.unconfirmed, now.Sub(s.begun).Round(time.Millisecond), strings.Join(s.reasons, "; ")),
	}
}

// setback gives the setback of a lane, a new one if it has none.
func (l *lanes) setback(ln *lane) *setback {
	if ln.setback == nil {
		ln.setback = &setback{retry: newBackoff()}
		l.setbacks++
	}
	return ln.setback
}

// failed returns the batch to its lanes to wait, in smaller parts if its own events may be
// the reason. It quarantines an event that the topic has refused often enough. Its error ends
// Run.
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
	refusals := s.refusals
	if d.options.Final {
		refusals += s.unconfirmed
	}
	if f.events == 1 && f.fault == FaultRefused && refusals >= d.options.MaxAttempts {
		reason := s.explain(f.at)
		d.mu.Unlock()
		return w.quarantine(ctx, 0, reason)
	}
	failures := s.failures
	w.wait(until)
	d.mu.Unlock()

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
	namespace := !known && (d.rateLimit.limited() || d.busyShare > namespaceBusy || f.at.Sub(d.acceptedAt) > busyWait)
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
		until = until.Add(time.Duration(len(l.waiting)/len(w.batch)) * time.Second / outageRate)
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

// putBackLocked is putBack for a caller that holds the mutex.
func (w *worker) putBackLocked(n int) {
	rest := w.batch[n:]
	w.batch = w.batch[:n]
	w.d.lanes.putBack(rest)
}

// quarantine stores the i-th event of the batch in the quarantine and acknowledges it. Its
// error ends Run.
func (w *worker) quarantine(ctx context.Context, i int, cause error) error {
	e := w.batch[i]
	if err := w.d.options.Quarantine(e.span.In(ctx), &e.item, cause); err != nil {
		return fmt.Errorf("quarantine event %s/%d: %w", e.item.Event.AggregateID, e.item.Event.EventID, err)
	}
	e.span.EndWith("quarantined", cause)
	w.d.metrics.published[resultQuarantined].Inc()
	oldest := i == 0 || w.batch[i-1].lane != e.lane
	w.batch = append(w.batch[:i], w.batch[i+1:]...)
	w.settle([]*entry{e}, false, oldest)
	return nil
}
