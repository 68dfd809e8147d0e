package publish

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// Batching says how many events, of which session keys, one broker message may
// carry.
type Batching string

// The policies, by the names that configuration uses.
const (
	// BatchingAuto is [BatchingMixed]: a topic that refuses such batches degrades it.
	BatchingAuto Batching = "auto"
	// BatchingOff sends each event as a message of its own.
	BatchingOff Batching = "off"
	// BatchingSession fills a batch with events of one session key.
	BatchingSession Batching = "session"
	// BatchingMixed fills a batch with events of any session keys.
	BatchingMixed Batching = "mixed"
)

// degraded is the policy to use after the topic has refused a batch of policy b.
func (b Batching) degraded(refusal Fault) Batching {
	if b == BatchingMixed && refusal != FaultBatch {
		return BatchingSession
	}
	return BatchingOff
}

// degrade falls back to a smaller policy after the topic has refused a batch. The caller
// holds the mutex.
func (w *worker) degrade(f *failure) {
	d := w.d
	if d.policy != w.policy {
		return // other batches of the old policy were under way: only the first refusal counts
	}
	d.policy = w.policy.degraded(f.fault)
	d.limit = max(d.limit, d.options.sends(d.policy))
	d.metrics.degraded.Inc()
	d.options.Logger.Warn().Err(f.err).Str("from", string(w.policy)).Str("to", string(d.policy)).
		Msg("topic refuses batches of this kind; sending smaller batches. Set PENSTOCK_BATCHING to avoid this attempt in every term")
}

// tooLarge sends fewer events, or a claim check if there is only one event, or quarantines
// that event. Its error ends Run.
func (w *worker) tooLarge(ctx context.Context, f *failure) error {
	if len(w.batch) > 1 {
		keep := 1
		if sendErr, ok := errors.AsType[*SendError](f.err); !ok || !sendErr.First {
			keep = len(w.batch) / 2
			w.d.learnBatchBytes(w.batch, keep)
		}
		w.putBack(keep)
		return nil
	}
	e := w.batch[0]
	if !f.broken {
		w.d.learnBodyLimit(len(e.message.Body))
	}
	if w.d.options.ClaimCheck && !e.claim {
		e.claim, e.large = true, false
		return w.encodeOne(ctx, 0)
	}
	return w.quarantine(ctx, 0, &event.ContractError{
		Reason: event.ReasonTooLarge,
		Detail: fmt.Sprintf("the topic refuses the event's message of %d bytes: %v", len(e.message.Body), f.err),
	})
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
