// Package eventlog is a workload from a file of domain events, one JSON object in each
// line, such as a public process-mining log. Its projection works for all event types. It
// counts each aggregate's events and appends to its history, which shows each event that is
// lost, repeated or out of order. If the cases of the log have owner groups and are completed
// in the end, a view has the open cases of each group.
package eventlog
