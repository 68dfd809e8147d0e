// Package contract tests packages of pkg against the servers that they are for. Those that
// use MongoDB run against the stand-in as a replica set, the stand-in as a mongos, and a real
// server if PENSTOCK_TEST_MONGODB_URI names one. The session receiver of pkg/sbus/sessions
// runs against the stand-in for Service Bus, beside the receiver of the Go SDK: both pass the
// same tests. It has tests only.
package contract
