package publish

import (
	"context"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/event"
)

const (
	// maxBatchBytes bounds the bytes that a worker takes for a batch before it knows what
	// fits: a batch of the premium tier holds 1 MB (azure-sdk-for-python#38260). A message
	// with a longer body is large: it is sent alone, one at a time.
	maxBatchBytes = 1 << 20
	// maxBody bounds a body, even if the topic accepts longer messages: an event of 16 MiB
	// can have 200 MiB in JSON. A longer body is treated like one that the topic refuses.
	maxBody = 32 << 20
	// measuredDocument is the length above which the body is measured before it is encoded.
	// The body of a shorter document fits into a message of every topic.
	measuredDocument = 16 << 10
	// smallestBodyBudget is the least budget for bodies, and reservation the part of it that
	// a worker reserves at once.
	smallestBodyBudget = 32 * maxBatchBytes
	reservation        = 64 << 10
)

// encode encodes the messages of the batch, as many as one broker message can hold, and
// returns the others to their lanes. It quarantines events that cannot be encoded and
// removes them from the batch. Its error ends Run.
func (w *worker) encode(ctx context.Context) error {
	w.bodies = 0
	for i := 0; i < len(w.batch); {
		e := w.batch[i]
		size := int64(len(e.item.Event.Document))
		if size > measuredDocument {
			var err error
			if size, err = w.measure(e); err != nil {
				if err := w.quarantine(ctx, i, err); err != nil {
					return err
				}
				continue
			}
		}
		if e.large && w.slot != slotLarge || i > 0 && w.bodies+size > maxBatchBytes {
			w.putBack(i)
			return nil
		}
		if w.bodies+size > w.reserved && w.slot != slotLarge {
			switch fits, err := w.reserve(ctx, size, i == 0); {
			case err != nil:
				return err
			case !fits:
				w.putBack(i)
				return nil
			}
		}
		events := len(w.batch)
		if err := w.encodeOne(ctx, i); err != nil {
			return err
		}
		if len(w.batch) == events {
			w.bodies += int64(len(e.message.Body))
			i++
		}
	}
	return nil
}

// measure gives the size to reserve for the body of a longer document, and decides how the
// event is sent. Its error means that the event cannot be published.
func (w *worker) measure(e *entry) (int64, error) {
	if e.claim {
		return measuredDocument, nil
	}
	if e.body == 0 {
		size, err := w.d.options.Encoder.Size(&e.item.Event)
		if err != nil {
			return 0, err
		}
		e.body = size
	}
	if limit := w.d.bodyLimit.Load(); int64(e.body) > limit {
		if !w.d.options.ClaimCheck {
			return 0, &event.ContractError{
				Reason: event.ReasonTooLarge,
				Detail: fmt.Sprintf("the event's message has %d bytes, more than the %d that the topic or the publisher allows", e.body, limit),
			}
		}
		e.claim, e.large = true, false
		return measuredDocument, nil
	}
	e.large = e.body > maxBatchBytes
	return int64(e.body), nil
}

// reserve reserves a part of the budget for one more body. wait says that the worker has no
// other body, so it may wait for the budget. The error is the cause of ctx's end.
func (w *worker) reserve(ctx context.Context, size int64, wait bool) (fits bool, err error) {
	more := max(w.bodies+size-w.reserved, reservation)
	if !w.d.bodyBudget.TryAcquire(more) {
		if !wait {
			return false, nil
		}
		if err := w.d.bodyBudget.Acquire(ctx, more); err != nil {
			return false, context.Cause(ctx)
		}
	}
	w.reserved += more
	return true, nil
}

// encodeOne encodes the i-th message of the batch. It quarantines the event if that fails.
// Its error ends Run.
func (w *worker) encodeOne(ctx context.Context, i int) error {
	e := w.batch[i]
	var message event.Message
	var err error
	if e.claim {
		message, err = w.d.options.Encoder.EncodeClaimCheck(&e.item.Event, w.d.options.Epoch)
	} else {
		message, err = w.d.options.Encoder.Encode(&e.item.Event, w.d.options.Epoch)
	}
	if err != nil {
		return w.quarantine(ctx, i, err)
	}
	message.ClaimCheck = e.claim
	if e.begun {
		message.TraceParent, message.TraceState = e.message.TraceParent, e.message.TraceState
	}
	e.message = message
	if !e.begun {
		e.begun = true
		e.span = w.d.options.Tracer.Publish(&e.message, e.submitted)
	}
	return nil
}

// learnBodyLimit records that the topic refuses a message with a body of that length. Then
// longer ones are not encoded any more in this term.
func (d *Dispatcher) learnBodyLimit(refused int) {
	if refused <= fitsAlways {
		return
	}
	for {
		known := d.bodyLimit.Load()
		if int64(refused) > known || d.bodyLimit.CompareAndSwap(known, int64(refused)-1) {
			return
		}
	}
}
