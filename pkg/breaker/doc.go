// Package breaker bounds the share of recent events that a service may set aside,
// such as put into the quarantine, park or dead-letter.
//
// If a few events among many good ones are bad, the events are the reason: they are set
// aside and the rest continues. If most events are bad, the reason is the service, its
// configuration or a server. A [Breaker] then refuses to set more events aside, and its
// caller lets them wait and reports the reason.
package breaker
