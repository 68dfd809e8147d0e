// Package tracingtest is a collector of traces for tests: it receives spans over OTLP, by
// HTTP and by gRPC, and keeps them in memory. It is for tests only.
package tracingtest
