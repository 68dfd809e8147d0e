// Package harness gives sandbox, end-to-end tests and benchmarks the same
// environment: an event store, a topic with a session subscription, and the two
// services as processes of their own that can be killed.
package harness
