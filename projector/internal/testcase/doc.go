// Package testcase runs the tests of projections: cases in YAML with given events and
// expected documents.
//
// # Runs
//
// A case first runs with its events as given. If it passes, it runs again in every other
// way in which the same events can reach a projector, each time with new stores. The read
// models and the parked aggregates must be the same after each step:
//
//	as given      each step's events in one batch
//	redelivered   every event by itself and twice, then all once more
//	batches       the aggregates' events mixed and split at random, from a seed
//	crashes       as given, but the process ends after every single write
//	rebuilt       the events so far folded from the event store into a new generation
//	interleaved   for views: each event by itself, and those of different aggregates in
//	              several other orders
//
// A difference means that the projection is not a pure function of its events, which is
// possible only in Go, or that the projector has a defect.
//
// The package reads files and compares results. The projector implements [Pipeline] with
// its engine to run the cases.
package testcase
