package app

import (
	"context"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/tracing"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// begin starts a span for each sampled delivery of a batch; it returns nil if there is
// none.
func (h *handler) begin(ctx context.Context, batch []*drain.Delivery) *tracing.Events {
	if h.tracer == nil {
		return nil
	}
	var events *tracing.Events
	for _, d := range batch {
		parent, state := event.TraceContext(d.Properties())
		span := h.tracer.Begin(ctx, &tracing.Message{
			Keys: &d.Event.Keys, MessageID: d.MessageID, SessionID: d.SessionID,
			Parent: parent, State: state,
			Deliveries: d.Deliveries(), Enqueued: d.Enqueued(), Size: d.Size(), ClaimCheck: d.ClaimCheck,
		})
		events = events.With(&d.Event.Keys, span)
	}
	return events
}

// end ends the spans of a batch.
func end(events *tracing.Events, batch []*drain.Delivery, verdicts []model.Verdict) {
	if events == nil {
		return
	}
	for i, d := range batch {
		v := verdicts[i]
		span := events.Of(d.Event.AggregateID, d.Event.EventID)
		if v.Outcome == model.Deferred {
			// The event waits, which is no error.
			v.Err = nil
		}
		span.EndWith(v.Outcome.String(), v.Err)
	}
}
