// Package fault holds the faults that a test has ordered: failing commands and
// added latency.
package fault
