// Package eventlog is a workload from a file of domain events, one JSON object in each
// line, such as a public process-mining log. Its one projection works for all event types.
// It counts each aggregate's events and appends to its history, which shows each event that
// is lost, repeated or out of order.
package eventlog
