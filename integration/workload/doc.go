// Package workload describes the input of a sandbox or an end-to-end test: the events,
// the projector's projections, and a fold of the same events in plain Go, which shares no
// code with the projector. The fold is the oracle: the read models must equal its
// results.
package workload
