package publish

import (
	"context"
	"errors"

	"github.com/penstock-cdc/penstock/pkg/tracing"
)

// errTermEnded is the status of a span whose event the next term publishes again.
var errTermEnded = errors.New("the term ended before the broker answered")

// beginSend starts the span of sending the batch, if one of its events is sampled.
func (w *worker) beginSend(ctx context.Context) (context.Context, tracing.Span) {
	w.traced = w.traced[:0]
	for _, e := range w.batch {
		if e.span.Recorded() {
			w.traced = append(w.traced, e.span.Context())
		}
	}
	return w.d.options.Tracer.Send(ctx, w.traced)
}

// endSpans ends the spans of the worker's batch when Run ends.
func (w *worker) endSpans() {
	for _, e := range w.batch {
		e.span.End(errTermEnded)
	}
}

// endSpans ends the spans of the events left in lanes when Run ends. No worker runs any
// more.
func (d *Dispatcher) endSpans() {
	if d.options.Tracer == nil {
		return
	}
	for _, ln := range d.lanes.byKey {
		for e := ln.head; e != nil; e = e.next {
			e.span.End(errTermEnded)
		}
	}
}
