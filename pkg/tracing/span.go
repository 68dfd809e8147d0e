package tracing

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
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

// Context returns the context that identifies the span; it is invalid if there is no span.
func (s Span) Context() trace.SpanContext {
	if s.span == nil {
		return trace.SpanContext{}
	}
	return s.span.SpanContext()
}

// In returns a context whose operations belong to the span.
func (s Span) In(ctx context.Context) context.Context {
	if s.span == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, s.span)
}

// End ends the span. An error marks it as failed.
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
	s.span.SetAttributes(attribute.String(keyOutcome, outcome))
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

// Origin writes the ids of a sampled W3C trace context into a log line. It is for a message
// for which this process has no span.
type Origin struct{ Parent string }

// MarshalZerologObject implements [zerolog.LogObjectMarshaler].
func (o Origin) MarshalZerologObject(e *zerolog.Event) {
	if c := trace.SpanContextFromContext(remote(context.Background(), o.Parent, "")); c.IsSampled() {
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

// remote returns a context with a W3C trace context as the parent. If the text is not
// valid, it returns ctx.
func remote(ctx context.Context, parent, state string) context.Context {
	if parent == "" {
		return ctx
	}
	return w3c.Extract(ctx, propagation.MapCarrier{"traceparent": parent, "tracestate": state})
}

// header returns the W3C trace context of a span, sampled or not.
func header(s trace.Span) (parent, state string) {
	carrier := propagation.MapCarrier{}
	w3c.Inject(trace.ContextWithSpan(context.Background(), s), carrier)
	return carrier["traceparent"], carrier["tracestate"]
}

// startBatch starts the span of an operation for several events. It is a child of the only
// span, or links to several.
func startBatch(ctx context.Context, t trace.Tracer, name string, spans []trace.SpanContext, options ...trace.SpanStartOption) (context.Context, Span) {
	if len(spans) == 1 {
		ctx = trace.ContextWithSpanContext(ctx, spans[0])
	} else {
		links := make([]trace.Link, len(spans))
		for i, s := range spans {
			links[i].SpanContext = s
		}
		options = append(options, trace.WithNewRoot(), trace.WithLinks(links...))
	}
	ctx, span := t.Start(ctx, name, options...)
	return ctx, sampled(span)
}
