package app

import (
	"math"
	"runtime/debug"
)

// collectorPercent is the value of GOGC if the process has a memory limit. A projector's
// live heap is a small part of the limit, and go-amqp allocates 80 KB for the link of each
// accepted session. With Go's default of 100 the collector would run several times a second
// and leave most of the limit unused. Near the limit, the limit decides when the collector
// runs, whatever this value is.
const collectorPercent = 400

// relaxCollector lets the heap grow within the memory limit (GOMEMLIMIT), unless the
// operator has set GOGC.
func relaxCollector(environ func(string) (string, bool)) {
	if _, set := environ("GOGC"); set || debug.SetMemoryLimit(-1) == math.MaxInt64 {
		return
	}
	debug.SetGCPercent(collectorPercent)
}
