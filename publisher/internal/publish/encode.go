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
	// expansion is how many times the length of its document a body can have at most.
	expansion = 16
	// smallestBodyBudget is the least budget for bodies.
	smallestBodyBudget = 32 * maxBatchBytes
)

// encode encodes the messages of the batch, as many as one broker message can hold, and
// returns the others to their lanes. It quarantines events that cannot be encoded and
// removes them from the batch. Its error ends Run.
func (w *worker) encode(ctx context.Context) error {
	if w.slot != slotLarge {
		var size int64
		for _, e := range w.batch {
			size += int64(len(e.item.Event.Document))
		}
		size = min(expansion*size, maxBatchBytes)
		if err := w.d.bodyBudget.Acquire(ctx, size); err != nil {
			return context.Cause(ctx)
		}
		w.reserved = size
	}
	bodies := int64(0)
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
		if e.large && w.slot != slotLarge || i > 0 && bodies+size > maxBatchBytes {
			w.putBack(i)
			return nil
		}
		events := len(w.batch)
		if err := w.encodeOne(ctx, i); err != nil {
			return err
		}
		if len(w.batch) == events {
			bodies += int64(len(e.message.Body))
			i++
		}
	}
	return nil
}

// measure gives the size of the body of a longer document, and decides how the
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
	if e.body > maxBody {
		if !w.d.options.ClaimCheck {
			return 0, &event.ContractError{
				Reason: event.ReasonTooLarge,
				Detail: fmt.Sprintf("the event's message has %d bytes, more than the %d that the publisher allows", e.body, maxBody),
			}
		}
		e.claim, e.large = true, false
		return measuredDocument, nil
	}
	e.large = e.body > maxBatchBytes
	return int64(e.body), nil
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
	if message.SessionKey != e.lane.key {
		return fmt.Errorf("encode event %s: its session key is %q, not %q: the order of its aggregate would be lost",
			message.MessageID, message.SessionKey, e.lane.key)
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
