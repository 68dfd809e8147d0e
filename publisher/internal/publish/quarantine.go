package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
)

const (
	// maxReasons is how many different errors of an event are kept for its
	// quarantine.
	maxReasons = 3
	// aloneFor is how long an event must have been refused while no other event was there
	// that the topic could accept. It doubles with each event that is quarantined in this
	// way, until the topic accepts one.
	aloneFor = time.Minute
	// lostWait is how long a lane waits until an event that the event store seems to have lost
	// is read again.
	lostWait = time.Minute
)

// ErrRefusals says that so many events cannot be published that the events cannot be the
// reason.
var ErrRefusals = errors.New("too many events cannot be published")

// evidence is what the failed sends of an event alone say about the event.
//
// The event is at fault if the topic refuses it explicitly and repeatedly, although the topic
// and the connection work. Any other failure says nothing about the event: it waits.
// The topic works if it accepts other events between the failures. The connection works if
// it served others in between, or if a second connection fails in the same way.
type evidence struct {
	since       time.Time // the first refusal
	confirmed   int       // refusals while the topic accepted others
	unconfirmed int       // refusals while the topic accepted no other
	reasons     []string  // the different errors

	connection, served uint64 // of the last failure; 0 before
	connectionWorks    bool

	searched bool // the quarantine was searched for the event
	held     bool // too many others are in the quarantine for this event to go there
}

// note adds a failure of the event alone.
func (v *evidence) note(f *failure, topicWorks bool) {
	if v.connection != 0 && (f.connection != v.connection || f.served > v.served) {
		v.connectionWorks = true
	}
	v.connection, v.served = f.connection, f.served
	if f.fault != FaultRefused {
		return
	}
	if v.since.IsZero() {
		v.since = f.at
	}
	if topicWorks {
		v.confirmed++
	} else {
		v.unconfirmed++
	}
	if reason := f.err.Error(); len(v.reasons) < maxReasons && !slices.Contains(v.reasons, reason) {
		v.reasons = append(v.reasons, reason)
	}
}

func (v *evidence) refusals() int { return v.confirmed + v.unconfirmed }

// conclusive reports whether the event, whose last failure is f, is at fault and must not be
// sent again. alone is how long it must have failed if the topic accepted no other event
// meanwhile; 0 if it is never at fault then, because other events fail too.
func (v *evidence) conclusive(f *failure, attempts int, alone time.Duration) bool {
	switch {
	case !v.connectionWorks || f.fault != FaultRefused:
		return false
	case v.confirmed >= attempts:
		return true
	default:
		return alone > 0 && v.refusals() >= attempts && f.at.Sub(v.since) >= alone
	}
}

// explain is the reason for the quarantine.
func (v *evidence) explain(now time.Time) *event.ContractError {
	return &event.ContractError{
		Reason: event.ReasonRefused,
		Detail: fmt.Sprintf("the topic refused the event in %d attempts over %s: %s",
			v.refusals(), now.Sub(v.since).Round(time.Millisecond), strings.Join(v.reasons, "; ")),
	}
}

// minRefusal is how long the only failing event must have failed to be at fault; 0 if other
// events fail too. The caller holds the mutex.
func (d *Dispatcher) minRefusal() time.Duration {
	if d.lanes.setbacks > 1 {
		return 0
	}
	return aloneFor << min(d.quarantined, 10)
}

// hold is [Dispatcher.hold] for the event of the batch, which is at fault. An event that is in
// the quarantine already may go there. The caller holds the mutex, which hold can release
// meanwhile.
func (w *worker) hold(ctx context.Context, s *setback, reason error) error {
	d, e := w.d, w.batch[0]
	if !s.event.searched && d.options.Known != nil {
		s.event.searched = true
		d.mu.Unlock()
		known := d.options.Known(ctx, &e.item)
		d.mu.Lock()
		if known {
			return nil
		}
	}
	return d.hold(e, reason, "correct the topic's settings")
}

// hold lets an event wait in its lane that cannot be published, because too many others are in
// the quarantine or wait for the same reason. It returns nil if the event may go to the
// quarantine. The caller holds the mutex, and lets the lane wait.
func (d *Dispatcher) hold(e *entry, cause error, remedy string) error {
	l := &d.lanes
	others := l.held
	if s := e.lane.setback; s != nil && s.event.held {
		others--
	}
	if d.options.Breaker.Allow(others) {
		return nil
	}
	s := l.setback(e.lane)
	recent, aside := d.options.Breaker.Recent()
	s.last.err = fmt.Errorf("%w: %d of the last %d events are in the quarantine and %d others wait; %s, or raise PENSTOCK_QUARANTINE_SHARE if the events are wrong; event %s: %w",
		ErrRefusals, aside, recent, others, remedy, event.MessageID(e.item.Event.AggregateID, e.item.Event.EventID), cause)
	if !s.event.held {
		s.event.held = true
		l.held++
		d.retryLog.Error().Err(s.last.err).Msg("event waits instead of going to the quarantine")
	}
	return s.last.err
}

// setLostAside quarantines the i-th event of the batch, which the event store cannot give any
// more, and removes it from the batch. If the event must wait, it returns it and those behind
// it to their lanes. Its error ends Run.
func (w *worker) setLostAside(ctx context.Context, i int) error {
	d, e := w.d, w.batch[i]
	d.mu.Lock()
	if d.hold(e, e.unpublishable, "restore the events in the event store, or restart the publisher if the oplog still has them") == nil {
		d.mu.Unlock()
		return w.quarantine(ctx, i, e.unpublishable)
	}
	defer d.mu.Unlock()
	now := time.Now()
	s := e.lane.setback
	if s.failures++; s.begun.IsZero() {
		s.begun = now
	}
	s.maxEvents, s.isolation, s.topicWorks = 1, max(s.isolation, suspect), true
	s.until = now.Add(lostWait)
	w.putBackLocked(i)
	notify(d.waits)
	d.wake()
	return nil
}

// quarantine stores the i-th event of the batch in the quarantine and acknowledges it. Its
// error ends Run.
func (w *worker) quarantine(ctx context.Context, i int, cause error) error {
	e := w.batch[i]
	w.d.activity.store(1)
	err := w.d.options.Quarantine(e.span.In(ctx), &e.item, cause)
	w.d.activity.store(-1)
	if err != nil {
		return fmt.Errorf("quarantine event %s/%d: %w", e.item.Event.AggregateID, e.item.Event.EventID, err)
	}
	e.span.EndWith("quarantined", cause)
	w.d.metrics.published[resultQuarantined].Inc()
	oldest := i == 0 || w.batch[i-1].lane != e.lane
	w.batch = append(w.batch[:i], w.batch[i+1:]...)
	w.settle([]*entry{e}, false, oldest)
	return nil
}
