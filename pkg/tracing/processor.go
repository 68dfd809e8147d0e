package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// Processor makes the spans of processing the messages of a subscription. nil makes none.
type Processor struct {
	tracer     trace.Tracer
	name       string
	attributes []attribute.KeyValue
}

// Processor gives the processor of a subscription of a topic at a host; nil if t is.
func (t *Tracer) Processor(host, topic, subscription string) *Processor {
	if t == nil {
		return nil
	}
	return &Processor{
		tracer: t.tracer,
		name:   "process " + topic,
		attributes: append(destination(host, topic),
			attribute.String(keyMessagingSubscription, subscription),
			attribute.String(keyMessagingOperation, "process"),
			attribute.String(keyMessagingType, valueProcess),
		),
	}
}

// Message is what a span says of a received message.
type Message struct {
	// Keys are those of its event.
	Keys *event.Keys
	// MessageID and SessionID are the broker's.
	MessageID, SessionID string
	// Parent and State are its W3C trace context; empty if it has none.
	Parent, State string
	// Deliveries counts the deliveries, from 1 on, and Enqueued is when the broker took
	// the message; zero if unknown.
	Deliveries uint32
	Enqueued   time.Time
	// Size is that of the body.
	Size       int
	ClaimCheck bool
}

// Begin starts the span of one attempt to process a message. Its parent is the span that
// the message names.
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
			attribute.String(keyMessagingMessageID, m.MessageID),
			attribute.String(keySessionID, m.SessionID),
			attribute.Int(keyMessagingBodySize, m.Size),
		)
		if m.Deliveries > 0 {
			span.SetAttributes(attribute.Int64(keyMessagingDeliveries, int64(m.Deliveries)))
		}
		if !m.Enqueued.IsZero() {
			span.SetAttributes(attribute.Int64(keyMessagingEnqueued, m.Enqueued.Unix()))
		}
		if m.ClaimCheck {
			span.SetAttributes(attribute.Bool(keyClaimCheck, true))
		}
	}
	return s
}

// Events are the spans of the events that are processed together. nil are none. They are
// not changed while others read them.
type Events struct {
	byAggregate map[string][]eventSpan
}

type eventSpan struct {
	id   int64
	span Span
}

// With adds the span of an event, if it is one. It makes the Events if e is nil.
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

// Of gives the span of an event, if it has one.
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

// In gives a context that has the events; ctx itself if there are none.
func (e *Events) In(ctx context.Context) context.Context {
	if e == nil {
		return ctx
	}
	return context.WithValue(ctx, eventsKey{}, e)
}

// EventsOf gives the events that a context has; nil if none.
func EventsOf(ctx context.Context) *Events {
	e, _ := ctx.Value(eventsKey{}).(*Events)
	return e
}
