// Package sandbox runs a workload through the whole pipeline, kills the leading
// publisher halfway, and then compares every read model with an independent fold
// of the event store. It is what `make demo` shows.
//
// A run goes through these phases:
//
//	starting ──▶ running ──▶ failover ──▶ running ──▶ verifying ──▶ done
//	                          (at half)
package sandbox
