package publish

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// maxBatchBytes bounds what is taken for a batch before it is known what fits:
// a batch of the premium tier holds 1 MB (azure-sdk-for-python#38260).
const maxBatchBytes = 1 << 20

// refused falls back to a smaller policy after the topic has refused a batch, and
// returns the events to their lanes. False means that Run ends.
func (w *worker) refused(fault Fault, err error) bool {
	d := w.d
	if len(w.batch) == 1 {
		d.fail(fmt.Errorf("publish event %s: the topic refuses it: %w", w.batch[0].message.MessageID, err))
		return false
	}
	d.mu.Lock()
	// Other batches of the old policy are under way: only the first refusal counts.
	if d.policy == w.policy {
		d.policy = w.policy.degraded(fault)
		d.limit = max(d.limit, d.options.sends(d.policy))
		d.metrics.degraded.Inc()
		d.options.Logger.Warn().Err(err).Str("from", string(w.policy)).Str("to", string(d.policy)).
			Msg("the topic refuses such batches: sending smaller ones. Configure the batching to spare this attempt in every term")
	}
	d.mu.Unlock()
	w.putBack(0)
	return true
}

// tooLarge makes the batch smaller: fewer events, or a claim check for the one,
// or the quarantine. False means that Run ends.
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
	if w.d.options.ClaimCheck && !e.message.ClaimCheck {
		message, err := w.d.options.Encoder.EncodeClaimCheck(&e.item.Event, w.d.options.Epoch)
		if err != nil {
			return w.quarantine(ctx, 0, err)
		}
		message.ClaimCheck = true
		e.message = message
		return true
	}
	return w.quarantine(ctx, 0, &event.ContractError{
		Reason: event.ReasonTooLarge,
		Detail: fmt.Sprintf("the topic refuses its message of %d bytes: %v", len(e.message.Body), cause),
	})
}

// quarantine stores the i-th event of the batch away and acknowledges it. False
// means that Run ends.
func (w *worker) quarantine(ctx context.Context, i int, cause error) bool {
	e := w.batch[i]
	w.d.activity.store(1)
	err := w.d.options.Quarantine(ctx, &e.item, cause)
	w.d.activity.store(-1)
	if err != nil {
		w.d.fail(fmt.Errorf("quarantine event %s/%d: %w", e.item.Event.AggregateID, e.item.Event.EventID, err))
		return false
	}
	w.d.metrics.published[resultQuarantined].Inc()
	w.batch = append(w.batch[:i], w.batch[i+1:]...)
	w.settle([]*entry{e})
	return true
}

// learnBatchBytes notes that n events of the batch fit, so that later batches are
// not taken much larger, to be encoded and cut again. Documents differ in how
// they encode, so the estimate rises again while batches fit.
func (d *Dispatcher) learnBatchBytes(batch []*entry, n int) {
	var bytes int64
	for _, e := range batch[:n] {
		bytes += e.size
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case n < len(batch):
		// The next one did not fit any more, whatever its size.
		d.batchBytes = min(bytes+batch[n].size/2, maxBatchBytes)
	case bytes > d.batchBytes-d.batchBytes/8:
		d.batchBytes = min(d.batchBytes+d.batchBytes/128+1, maxBatchBytes)
	}
}
