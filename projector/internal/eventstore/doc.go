// Package eventstore reads single aggregates from the event store: what the topic
// did not bring, and what was too large for it.
package eventstore
