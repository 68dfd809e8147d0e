// Package eventlog is a workload read from a file of domain events, one JSON
// object a line, such as a public process-mining log. Whatever the file's event
// types are, its one projection counts each aggregate's events and appends to
// its history, so that an event lost, repeated or out of order shows.
package eventlog
