package publish

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// unprovenBatches is how many batches in a row the topic must refuse before the policy
// counts as the reason. It applies if the topic does not say why, and has accepted no
// batch before. If one message were the reason, the topic would soon accept a half.
const unprovenBatches = 8

// lostWait is how long a lane waits until an event that the event store seems to have lost is
// read again.
const lostWait = time.Minute

// ErrRefusals says that so many events cannot be published that the events cannot be the
// reason.
var ErrRefusals = errors.New("too many events cannot be published")

// degrade falls back to a smaller policy after the topic has refused a batch, and
// returns the events to their lanes.
func (w *worker) degrade(fault Fault, err error) {
	w.d.mu.Lock()
	w.degradePolicy(fault, err)
	w.d.mu.Unlock()
	w.putBack(0)
}

// degradePolicy falls back to a smaller policy. The caller holds the mutex.
func (w *worker) degradePolicy(fault Fault, err error) {
	d := w.d
	if d.policy != w.policy {
		return // other batches of the old policy were under way: only the first refusal counts
	}
	d.policy = w.policy.degraded(fault)
	d.limit = max(d.limit, d.options.sends(d.policy))
	d.policyProven, d.refusedBatches = false, 0
	d.metrics.degraded.Inc()
	d.options.Logger.Warn().Err(err).Str("from", string(w.policy)).Str("to", string(d.policy)).
		Msg("topic refuses batches of this kind; sending smaller batches. Set PENSTOCK_BATCHING to avoid this attempt in every term")
}

// noteRefusedBatch counts a batch that the topic refused for an unspecified reason. The
// caller holds the mutex.
func (w *worker) noteRefusedBatch(f failure) {
	d := w.d
	if f.fault != FaultRefused || !w.tests(f.events) || d.policyProven || d.policy != w.policy {
		return
	}
	if d.refusedBatches++; d.refusedBatches >= unprovenBatches {
		w.degradePolicy(FaultRefused, f.err)
	}
}

// noteAcceptedBatch records that the topic accepts batches of the policy.
func (w *worker) noteAcceptedBatch(events int) {
	if !w.tests(events) {
		return
	}
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if w.d.policy == w.policy {
		w.d.policyProven = true
	}
}

// tests reports whether a batch of the first events is allowed by its policy but not by the
// next smaller policy.
func (w *worker) tests(events int) bool {
	if w.policy == BatchingMixed {
		return w.batch[0].lane != w.batch[events-1].lane
	}
	return w.policy == BatchingSession && events > 1
}

// hold lets an event wait in its lane that cannot be published, because too many others are in
// the quarantine or wait for the same reason. It returns nil if the event may go to the
// quarantine. The caller holds the mutex, and lets the lane wait.
func (d *Dispatcher) hold(e *entry, cause error, remedy string) error {
	l := &d.lanes
	others := l.held
	if s := e.lane.setback; s != nil && s.held {
		others--
	}
	if d.options.Breaker.Allow(others) {
		return nil
	}
	s := l.setback(e.lane)
	recent, aside := d.options.Breaker.Recent()
	s.err = fmt.Errorf("%w: %d of the last %d events are in the quarantine and %d others wait; %s, or raise PENSTOCK_QUARANTINE_SHARE if the events are wrong; event %s: %w",
		ErrRefusals, aside, recent, others, remedy, event.MessageID(e.item.Event.AggregateID, e.item.Event.EventID), cause)
	if !s.held {
		s.held = true
		l.held++
		d.stumbles.Error().Err(s.err).Msg("event waits instead of going to the quarantine")
	}
	// The more events wait, the less often each is sent again.
	s.notBefore = s.notBefore.Add(time.Duration(l.held) * time.Second / outageRate)
	return s.err
}

// setLostAside quarantines the i-th event of the batch, which the event store cannot give any
// more, and removes it from the batch. If the event must wait, it returns it and those behind
// it to their lanes. False means that Run ends.
func (w *worker) setLostAside(ctx context.Context, i int) bool {
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
	s.most, s.suspect, s.explained = 1, true, true
	s.waits, s.notBefore = true, now.Add(lostWait)
	d.lanes.putBack(w.batch[i:])
	w.batch = w.batch[:i]
	d.unloadReloaded(e.lane)
	d.notifyWaits()
	d.wake()
	return true
}

// tooLarge sends fewer events, or a claim check if there is only one event, or quarantines
// that event. False means that Run ends.
func (w *worker) tooLarge(ctx context.Context, cause error) bool {
	if len(w.batch) > 1 {
		keep := 1
		if sendErr, ok := errors.AsType[*SendError](cause); !ok || !sendErr.First {
			keep = len(w.batch) / 2
			w.d.learnBatchBytes(w.batch, keep)
		}
		w.putBack(keep)
		return true
	}
	e := w.batch[0]
	if _, broken := faultOf(cause); !broken {
		w.d.learnBodyLimit(len(e.message.Body))
	}
	if w.d.options.ClaimCheck && !e.claim {
		e.claim, e.large = true, false
		return w.encodeOne(ctx, 0)
	}
	return w.quarantine(ctx, 0, &event.ContractError{
		Reason: event.ReasonTooLarge,
		Detail: fmt.Sprintf("the topic refuses the event's message of %d bytes: %v", len(e.message.Body), cause),
	})
}

// quarantine stores the i-th event of the batch in the quarantine and acknowledges it.
// False means that Run ends.
func (w *worker) quarantine(ctx context.Context, i int, cause error) bool {
	e := w.batch[i]
	w.d.activity.store(1)
	err := w.d.options.Quarantine(e.span.In(ctx), &e.item, cause)
	w.d.activity.store(-1)
	if err != nil {
		w.d.fail(fmt.Errorf("quarantine event %s/%d: %w", e.item.Event.AggregateID, e.item.Event.EventID, err))
		return false
	}
	e.span.EndWith("quarantined", cause)
	w.d.metrics.published[resultQuarantined].Inc()
	oldest := i == 0 || w.batch[i-1].lane != e.lane
	w.batch = append(w.batch[:i], w.batch[i+1:]...)
	w.settle([]*entry{e}, false, oldest)
	return true
}

// learnBatchBytes records that n events of the batch fit, so that later batches are not
// much larger: encoding them and splitting them again costs time. Encoded sizes vary, so
// the estimate rises again while batches fit.
func (d *Dispatcher) learnBatchBytes(batch []*entry, n int) {
	var bytes int64
	for _, e := range batch[:n] {
		bytes += e.size
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case n < len(batch):
		// The next event did not fit, whatever its size.
		d.batchBytes = min(bytes+batch[n].size/2, maxBatchBytes)
	case bytes > d.batchBytes-d.batchBytes/8:
		d.batchBytes = min(d.batchBytes+d.batchBytes/128+1, maxBatchBytes)
	}
}
