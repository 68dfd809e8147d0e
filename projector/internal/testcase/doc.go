// Package testcase runs the tests of projections: cases in YAML that say which events are
// given and which documents are expected.
//
// # Runs
//
// A case runs as its events are given. If it passes, it runs again in every way in which
// the same events can reach a projector, each time with stores of its own. The read models
// and the parked aggregates must be alike after each step:
//
//	as given      each step's events in one batch
//	redelivered   every event by itself and twice, then all once more
//	batches       the aggregates' events mixed and split at random, from a seed
//	crashes       as given, but the process ends after every single write
//	rebuilt       the events so far folded from the event store into a new generation
//
// A difference means that the projection is not a pure function of its events, which only
// one in Go can fail to be, or that the projector has a defect.
//
// The package reads files and compares. What runs a case is a [Pipeline], which the
// projector makes of its engine.
package testcase
