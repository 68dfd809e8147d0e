package tracing

import (
	"context"
	"net"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// Publisher makes the spans of sending to a topic. A nil Publisher makes none.
type Publisher struct {
	tracer        trace.Tracer
	publish, send string
	create, batch []attribute.KeyValue
}

// Publisher returns the publisher of a topic at host, which may have a port; nil if t is
// nil.
func (t *Tracer) Publisher(host, topic string) *Publisher {
	if t == nil {
		return nil
	}
	common := destination(host, topic)
	return &Publisher{
		tracer:  t.tracer,
		publish: "publish " + topic, send: "send " + topic,
		create: append(common[:len(common):len(common)], semconv.MessagingOperationName("publish"), semconv.MessagingOperationTypeCreate),
		batch:  append(common[:len(common):len(common)], semconv.MessagingOperationName("send"), semconv.MessagingOperationTypeSend),
	}
}

// destination returns the attributes of a topic.
func destination(host, topic string) []attribute.KeyValue {
	attributes := []attribute.KeyValue{
		semconv.MessagingSystemServiceBus,
		semconv.MessagingDestinationName(topic),
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		return append(attributes, semconv.ServerAddress(host))
	}
	attributes = append(attributes, semconv.ServerAddress(name))
	if n, err := strconv.Atoi(port); err == nil {
		attributes = append(attributes, semconv.ServerPort(n))
	}
	return attributes
}

// Now returns the time, for the parameter since of Begin; zero if p is nil.
func (p *Publisher) Now() time.Time {
	if p == nil {
		return time.Time{}
	}
	return time.Now()
}

// Begin starts the span of publishing an event, beginning at since. Its parent is the trace
// context of m, if m has one. Begin then stores the span's context in m, even if the span
// is not sampled.
func (p *Publisher) Begin(m *event.Message, since time.Time) Span {
	if p == nil {
		return Span{}
	}
	ctx := remote(context.Background(), m.TraceParent, m.TraceState)
	_, span := p.tracer.Start(ctx, p.publish, trace.WithSpanKind(trace.SpanKindProducer), trace.WithTimestamp(since))
	m.TraceParent, m.TraceState = header(span)
	s := sampled(span)
	if s.Recorded() {
		span.SetAttributes(p.create...)
		span.SetAttributes(keysOf(&m.Keys)...)
		span.SetAttributes(
			semconv.MessagingMessageID(m.MessageID),
			attribute.String(keySessionID, m.SessionKey),
			attribute.Int64(keyEpoch, m.Epoch),
		)
	}
	return s
}

func keysOf(k *event.Keys) []attribute.KeyValue {
	attributes := []attribute.KeyValue{
		attribute.String(keyAggregateID, k.AggregateID),
		attribute.Int64(keyEventID, k.EventID),
		attribute.String(keyEventType, k.EventType),
	}
	if k.AggregateType != "" {
		attributes = append(attributes, attribute.String(keyAggregateType, k.AggregateType))
	}
	return attributes
}

// Send starts the span of sending a message or a batch. events are the spans of its sampled
// events; without them there is no span.
func (p *Publisher) Send(ctx context.Context, events []trace.SpanContext) (context.Context, Span) {
	if p == nil || len(events) == 0 {
		return ctx, Span{}
	}
	return startBatch(ctx, p.tracer, p.send, events, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(p.batch...))
}

// EndSend ends the span of a send, of which the broker has accepted that many messages as
// one batch.
func (s Span) EndSend(accepted int, err error) {
	if s.span == nil {
		return
	}
	if accepted > 1 {
		s.span.SetAttributes(semconv.MessagingBatchMessageCount(accepted))
	}
	s.End(err)
}
