package bench

import (
	"math"
	"runtime/debug"
	"testing"
)

// Not parallel: the collector's settings hold for the whole process.
func TestCollectorIsOffDuringRowsAndOnAgainAfterThem(t *testing.T) {
	const before = 80
	percent, limit := debug.SetGCPercent(before), debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})

	restore := collectBetweenRows()
	if got := debug.SetMemoryLimit(-1); got < leastMemory || got > max(leastMemory, machineMemory()) {
		t.Errorf("the limit is %d bytes", got)
	}
	if got := debug.SetGCPercent(-1); got != -1 {
		t.Errorf("GOGC is %d during the rows, want off", got)
	}

	restore()
	if got := debug.SetGCPercent(before); got != before {
		t.Errorf("GOGC is %d after the run, want %d", got, before)
	}
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("the limit is %d bytes after the run, want none", got)
	}
}
