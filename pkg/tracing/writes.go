package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Write describes a write of a read model, for its span. It folds the events after From up
// to To.
type Write struct {
	Projection, Collection, AggregateID string
	// Generation is the generation of the projection; 0 is the first.
	Generation int64
	From, To   int64
}

// Write starts a span for each event of e that the write folds, as a child of the event's
// span. It returns none if tracing is off or none of the events is sampled.
func (t *Tracer) Write(ctx context.Context, e *Events, w *Write) []Span {
	if t == nil || e == nil {
		return nil
	}
	var spans []Span
	for _, ev := range e.byAggregate[w.AggregateID] {
		if ev.id <= w.From || ev.id > w.To {
			continue
		}
		_, span := t.tracer.Start(ev.span.In(ctx), "write "+w.Collection, trace.WithAttributes(
			attribute.String(keyProjection, w.Projection),
			attribute.Int64(keyGeneration, w.Generation),
			semconv.DBCollectionName(w.Collection),
			attribute.String(keyAggregateID, w.AggregateID),
			attribute.Int64(keyEventID, ev.id),
			attribute.Int64(keyFrom, w.From),
			attribute.Int64(keyTo, w.To),
		))
		if s := sampled(span); s.Recorded() {
			spans = append(spans, s)
		}
	}
	return spans
}

// Contexts returns the contexts that identify spans; nil for none.
func Contexts(spans []Span) []trace.SpanContext {
	if len(spans) == 0 {
		return nil
	}
	contexts := make([]trace.SpanContext, len(spans))
	for i, s := range spans {
		contexts[i] = s.Context()
	}
	return contexts
}

// Commit starts the span of a group commit of that many writes to a collection. events are
// the spans of its sampled events; without them there is no span.
func (t *Tracer) Commit(ctx context.Context, collection string, writes int, events []trace.SpanContext) (context.Context, Span) {
	if t == nil || len(events) == 0 {
		return ctx, Span{}
	}
	return startBatch(ctx, t.tracer, "commit "+collection, events, trace.WithAttributes(
		semconv.DBCollectionName(collection),
		semconv.DBOperationBatchSize(writes),
	))
}
