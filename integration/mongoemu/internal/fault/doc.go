// Package fault holds the faults that a test has set: commands that fail or wait, writes
// of documents that fail, and added latency.
package fault
