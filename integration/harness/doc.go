// Package harness has the environment of the sandbox, the end-to-end tests and the
// benchmarks: an event store, a topic with a session subscription, and the two services as
// processes that can be killed.
//
// Event store and topic are a [Backend], of one of three kinds. [Embedded] runs stand-ins
// in this process. [External] opens databases and topics on servers that already run.
// Package containers runs such servers.
package harness
