package tracing

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// Span is a sampled span that has not ended. The zero value is no span: the event is not
// sampled, or tracing is off.
type Span struct{ span trace.Span }

// sampled returns s if it is recorded, and no span otherwise.
func sampled(s trace.Span) Span {
	if !s.IsRecording() {
		return Span{}
	}
	return Span{s}
}

// SpanOf returns the span to which the operations of a context belong.
func SpanOf(ctx context.Context) Span { return sampled(trace.SpanFromContext(ctx)) }

// Recorded reports whether s is a span.
func (s Span) Recorded() bool { return s.span != nil }

// In returns a context whose operations belong to the span.
func (s Span) In(ctx context.Context) context.Context {
	if s.span == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, s.span)
}

// End ends the span; an error is its status.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, err.Error())
	}
	s.span.End()
}

// EndWith is End with an outcome, which is one of a few fixed words.
func (s Span) EndWith(outcome string, err error) {
	if s.span == nil {
		return
	}
	s.span.SetAttributes(attribute.String("penstock.outcome", outcome))
	s.End(err)
}

// MarshalZerologObject writes the ids of the span into a log line, or nothing if there is
// no span. It implements [zerolog.LogObjectMarshaler], for EmbedObject.
func (s Span) MarshalZerologObject(e *zerolog.Event) {
	if s.span != nil {
		c := s.span.SpanContext()
		e.Str("trace_id", c.TraceID().String()).Str("span_id", c.SpanID().String())
	}
}

// Observe adds a value to a histogram, with the ids of the span as its exemplar.
func (s Span) Observe(h prometheus.Histogram, value float64) {
	if s.span != nil {
		if observer, ok := h.(prometheus.ExemplarObserver); ok {
			c := s.span.SpanContext()
			observer.ObserveWithExemplar(value, prometheus.Labels{"trace_id": c.TraceID().String(), "span_id": c.SpanID().String()})
			return
		}
	}
	h.Observe(value)
}

// w3c reads and writes the trace context.
var w3c = propagation.TraceContext{}

// remote returns a context with a W3C trace context as the parent; none if it is not valid.
func remote(parent, state string) context.Context {
	return w3c.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent, "tracestate": state})
}

// header returns the W3C trace context of a span, sampled or not.
func header(s trace.Span) (parent, state string) {
	carrier := propagation.MapCarrier{}
	w3c.Inject(trace.ContextWithSpan(context.Background(), s), carrier)
	return carrier["traceparent"], carrier["tracestate"]
}

// Events are the spans of the events that are processed together. A nil Events has none. It
// must not be changed while others read it.
type Events struct {
	byKey map[eventKey]Span
}

type eventKey struct {
	aggregateID string
	id          int64
}

// With adds s for an event if s is recorded. It makes the Events if e is nil.
func (e *Events) With(k *event.Keys, s Span) *Events {
	if !s.Recorded() {
		return e
	}
	if e == nil {
		e = &Events{byKey: make(map[eventKey]Span)}
	}
	e.byKey[eventKey{k.AggregateID, k.EventID}] = s
	return e
}

// Of returns the span of an event, if it has one.
func (e *Events) Of(aggregateID string, id int64) Span {
	if e == nil {
		return Span{}
	}
	return e.byKey[eventKey{aggregateID, id}]
}

// eventsKey is the key of Events in a context.
type eventsKey struct{}

// In returns a context with the events; ctx itself if there are none.
func (e *Events) In(ctx context.Context) context.Context {
	if e == nil {
		return ctx
	}
	return context.WithValue(ctx, eventsKey{}, e)
}

// EventsOf returns the events in a context; nil if there are none.
func EventsOf(ctx context.Context) *Events {
	e, _ := ctx.Value(eventsKey{}).(*Events)
	return e
}
