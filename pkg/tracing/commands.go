package tracing

import (
	"context"
	"errors"
	"sync"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Monitor returns a command monitor for clients of MongoDB; nil if t is nil. A command gets
// a span if the context of its operation has a sampled one. No span has the values of a
// command, because they are users' data.
func (t *Tracer) Monitor() *event.CommandMonitor {
	if t == nil {
		return nil
	}
	c := &commands{tracer: t.tracer, running: make(map[commandKey]trace.Span)}
	return &event.CommandMonitor{Started: c.started, Succeeded: c.succeeded, Failed: c.failed}
}

// commands has the spans of running commands.
type commands struct {
	tracer trace.Tracer

	mu      sync.Mutex
	running map[commandKey]trace.Span
}

type commandKey struct {
	connection string
	request    int64
}

func (c *commands) started(ctx context.Context, e *event.CommandStartedEvent) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return
	}
	attributes := []attribute.KeyValue{
		semconv.DBSystemNameMongoDB,
		semconv.DBNamespace(e.DatabaseName),
		semconv.DBOperationName(e.CommandName),
	}
	name := e.CommandName
	field := e.CommandName
	if field == "getMore" {
		field = "collection"
	}
	if collection, ok := e.Command.Lookup(field).StringValueOK(); ok {
		attributes = append(attributes, semconv.DBCollectionName(collection))
		name += " " + collection
	}
	_, span := c.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[commandKey{e.ConnectionID, e.RequestID}] = span
}

// take removes and returns the span of a command that has ended, if there is one.
func (c *commands) take(e *event.CommandFinishedEvent) trace.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := commandKey{e.ConnectionID, e.RequestID}
	span := c.running[key]
	delete(c.running, key)
	return span
}

func (c *commands) succeeded(_ context.Context, e *event.CommandSucceededEvent) {
	if span := c.take(&e.CommandFinishedEvent); span != nil {
		span.End()
	}
}

func (c *commands) failed(_ context.Context, e *event.CommandFailedEvent) {
	span := c.take(&e.CommandFinishedEvent)
	if span == nil {
		return
	}
	if refused, ok := errors.AsType[mongo.CommandError](e.Failure); ok {
		span.SetAttributes(semconv.DBResponseStatusCodeKey.Int64(int64(refused.Code)), semconv.ErrorTypeKey.String(refused.Name))
	}
	span.SetStatus(codes.Error, e.CommandName+" failed")
	span.End()
}
