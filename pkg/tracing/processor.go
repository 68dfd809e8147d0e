package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// Processor makes the spans of processing the messages of a subscription. A nil Processor
// makes none.
type Processor struct {
	tracer     trace.Tracer
	name       string
	attributes []attribute.KeyValue
}

// Processor returns the processor of a topic's subscription at a host; nil if t is nil.
func (t *Tracer) Processor(host, topic, subscription string) *Processor {
	if t == nil {
		return nil
	}
	return &Processor{
		tracer: t.tracer,
		name:   "process " + topic,
		attributes: append(destination(host, topic),
			semconv.MessagingDestinationSubscriptionName(subscription),
			semconv.MessagingOperationName("process"),
			semconv.MessagingOperationTypeProcess,
		),
	}
}

// Message describes a received message, for its span.
type Message struct {
	// Keys are the keys of its event.
	Keys *event.Keys
	// MessageID and SessionID are the broker's.
	MessageID, SessionID string
	// Parent and State are its W3C trace context; empty if it has none.
	Parent, State string
	// Deliveries counts the deliveries, starting at 1. Enqueued is when the broker accepted
	// the message; zero if unknown.
	Deliveries uint32
	Enqueued   time.Time
	// Size is the size of the body, in bytes.
	Size       int
	ClaimCheck bool
}

// Begin starts the span of one attempt to process a message. Its parent is the span in the
// message's trace context.
func (p *Processor) Begin(ctx context.Context, m *Message) Span {
	if p == nil {
		return Span{}
	}
	_, span := p.tracer.Start(remote(ctx, m.Parent, m.State), p.name, trace.WithSpanKind(trace.SpanKindConsumer))
	s := sampled(span)
	if s.Recorded() {
		span.SetAttributes(p.attributes...)
		span.SetAttributes(keysOf(m.Keys)...)
		span.SetAttributes(
			semconv.MessagingMessageID(m.MessageID),
			attribute.String(keySessionID, m.SessionID),
			semconv.MessagingMessageBodySize(m.Size),
		)
		if m.Deliveries > 0 {
			span.SetAttributes(semconv.MessagingServiceBusMessageDeliveryCount(int(m.Deliveries)))
		}
		if !m.Enqueued.IsZero() {
			span.SetAttributes(semconv.MessagingServiceBusMessageEnqueuedTime(int(m.Enqueued.Unix())))
		}
		if m.ClaimCheck {
			span.SetAttributes(attribute.Bool(keyClaimCheck, true))
		}
	}
	return s
}

// Events are the spans of the events that are processed together. A nil Events has none. It
// must not be changed while others read it.
type Events struct {
	byAggregate map[string][]eventSpan
}

type eventSpan struct {
	id   int64
	span Span
}

// With adds s for an event if s is recorded. It makes the Events if e is nil.
func (e *Events) With(k *event.Keys, s Span) *Events {
	if !s.Recorded() {
		return e
	}
	if e == nil {
		e = &Events{byAggregate: make(map[string][]eventSpan)}
	}
	e.byAggregate[k.AggregateID] = append(e.byAggregate[k.AggregateID], eventSpan{k.EventID, s})
	return e
}

// Of returns the span of an event, if it has one.
func (e *Events) Of(aggregateID string, id int64) Span {
	if e != nil {
		for _, ev := range e.byAggregate[aggregateID] {
			if ev.id == id {
				return ev.span
			}
		}
	}
	return Span{}
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
