// Package event is the contract between the event store, the topic and the read
// models: which fields an event has, what its keys are, and how it stands in a
// message. Both services share it and nothing else about events.
package event
