package app

import "runtime/debug"

// collectorPercent is the value of GOGC for a publisher. The live heap is bounded by the
// events that are read ahead, in flight and being sent: about 50 MiB under full load,
// whatever the backlog. With Go's default of 100 the heap grows to twice that before it is
// collected, and the process to more than 128 MiB.
const collectorPercent = 50

// tightenCollector keeps the heap small, unless the operator has set GOGC.
func tightenCollector(environ func(string) (string, bool)) {
	if _, set := environ("GOGC"); !set {
		debug.SetGCPercent(collectorPercent)
	}
}
