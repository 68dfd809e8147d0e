// Package harness gives sandbox, end-to-end tests and benchmarks the same
// environment: an event store, a topic with a session subscription, and the two
// services as processes of their own that can be killed.
//
// Event store and topic are a [Backend], of one of three kinds: [Embedded] is
// stand-ins in this process, [External] opens a share of servers that somebody
// else runs, and package containers runs such servers.
package harness
