// Package breaker bounds the share of recent events that a service may set aside,
// such as put into the quarantine, park or dead-letter.
//
// A few bad events among many good ones are the events' fault: they are set aside
// and the rest goes on. If most events are bad, the service, its configuration or a
// server is at fault. A [Breaker] then refuses to set more events aside, and its
// caller stops and reports why.
package breaker
