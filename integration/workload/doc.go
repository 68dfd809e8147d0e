// Package workload describes what a sandbox or an end-to-end test runs through
// the pipeline: the events, the projections that the projector is given, and a
// fold of the same events in plain Go that shares no code with the projector.
// The fold is the oracle: the read models must equal it.
package workload
