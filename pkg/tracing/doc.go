// Package tracing makes the spans of the services, with OpenTelemetry's API, and exports
// them over OTLP. It is off unless the configuration names an exporter.
//
// An event has one trace, from its insert to the durable write of each read model:
//
//	writer's span            metadata.traceparent, if the writer gave one
//	  └── publish (producer) from reading the event to the broker's acceptance
//	        └── process (consumer)   one for each attempt, also after a redelivery
//	              ├── find           a claim check that is read from the event store
//	              └── write          one for each projection that the event changes
//
// An operation for several events has a span of its own:
//
//	send (client)            one message or batch to the broker; links to publish
//	commit                   one group commit of a collection; links to write
//	  └── update … (client)  the commands of MongoDB
//
// If only one event of such a batch is traced, the batch's span is a child of the event's
// span, so the trace is complete without following links. Otherwise the span starts a trace
// of its own, which is sampled because one of the linked spans is.
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
// dropped, one line is logged, and nothing else changes.
package tracing
