// Package tracing makes the spans of the services, with OpenTelemetry's API, and exports
// them over OTLP. It is off unless the configuration names an exporter.
//
// An event has one trace, from its insert to the durable write of its read models:
//
//	writer's span            metadata.traceparent, if the writer gave one
//	  └── publish (producer) from reading the event to the broker's acceptance
//	        └── process (consumer)   one for each attempt, also after a redelivery
//
// The context travels as W3C trace context in the application properties of the message
// (package event). A publisher that traces stores its own context there, even for events
// that are not sampled, so that the projector makes the same decision. Jobs that fold
// events from the event store have no context, and make no spans.
//
// # Cost
//
// A nil [*Tracer] means that tracing is off. All methods of nil pointers and of zero values
// in this package do nothing and allocate nothing, so callers need no condition.
//
// Ended spans wait in a bounded queue. If the collector cannot be reached, spans are
// dropped, a line is logged, and nothing else changes.
package tracing
