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

// Messages makes the spans of publishing to a topic or of processing its messages. A nil
// Messages makes none.
type Messages struct {
	tracer     trace.Tracer
	name       string
	attributes []attribute.KeyValue
}

// Publisher makes the spans of publishing to a topic at host, which may have a port; nil if t
// is nil.
func (t *Tracer) Publisher(host, topic string) *Messages {
	return t.messages(host, topic, "publish", semconv.MessagingOperationTypeCreate)
}

// Processor makes the spans of processing the messages of a topic's subscription; nil if t is
// nil.
func (t *Tracer) Processor(host, topic, subscription string) *Messages {
	return t.messages(host, topic, "process", semconv.MessagingOperationTypeProcess, semconv.MessagingDestinationSubscriptionName(subscription))
}

func (t *Tracer) messages(host, topic, operation string, attributes ...attribute.KeyValue) *Messages {
	if t == nil {
		return nil
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	attributes = append(attributes,
		semconv.MessagingSystemServiceBus, semconv.MessagingDestinationName(topic), semconv.MessagingOperationName(operation),
		semconv.ServerAddress(name))
	if n, err := strconv.Atoi(port); err == nil {
		attributes = append(attributes, semconv.ServerPort(n))
	}
	return &Messages{tracer: t.tracer, name: operation + " " + topic, attributes: attributes}
}

// Now returns the time, for the parameter since of Publish; zero if m is nil.
func (m *Messages) Now() time.Time {
	if m == nil {
		return time.Time{}
	}
	return time.Now()
}

// Publish starts the span of publishing an event, beginning at since. Its parent is the trace
// context of message, if it has one. Publish then stores the span's context there, even if the
// span is not sampled.
func (m *Messages) Publish(message *event.Message, since time.Time) Span {
	if m == nil {
		return Span{}
	}
	s := m.start(message.TraceParent, message.TraceState, &message.Keys, message.MessageID,
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithTimestamp(since))
	message.TraceParent, message.TraceState = header(s)
	return sampled(s)
}

// Process starts the span of one attempt to process a message with those application
// properties, whose parent is the span in its trace context.
func (m *Messages) Process(keys *event.Keys, messageID string, properties map[string]any, deliveries uint32) Span {
	if m == nil {
		return Span{}
	}
	parent, state := event.TraceContext(properties)
	s := m.start(parent, state, keys, messageID, trace.WithSpanKind(trace.SpanKindConsumer))
	s.SetAttributes(semconv.MessagingServiceBusMessageDeliveryCount(int(deliveries)))
	return sampled(s)
}

// start starts a span about a message, as a child of the span in a W3C trace context.
func (m *Messages) start(parent, state string, k *event.Keys, messageID string, options ...trace.SpanStartOption) trace.Span {
	ctx := context.Background()
	if parent != "" {
		ctx = remote(parent, state)
	}
	_, s := m.tracer.Start(ctx, m.name, options...)
	if s.IsRecording() {
		s.SetAttributes(m.attributes...)
		s.SetAttributes(
			semconv.MessagingMessageID(messageID),
			attribute.String("penstock.aggregate.id", k.AggregateID),
			attribute.String("penstock.aggregate.type", k.AggregateType),
			attribute.Int64("penstock.event.id", k.EventID),
			attribute.String("penstock.event.type", k.EventType),
		)
	}
	return s
}
