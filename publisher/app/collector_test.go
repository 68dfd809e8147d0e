package app

import (
	"runtime/debug"
	"testing"
)

// Not parallel: GOGC holds for the whole process.
func TestCollectorKeepsTheHeapSmallUnlessConfigured(t *testing.T) {
	percent := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	for _, test := range []struct {
		set  bool
		want int
	}{{false, collectorPercent}, {true, 100}} {
		debug.SetGCPercent(100)
		tightenCollector(func(name string) (string, bool) { return "100", test.set && name == "GOGC" })
		if got := debug.SetGCPercent(100); got != test.want {
			t.Errorf("GOGC set: %t: it is %d, want %d", test.set, got, test.want)
		}
	}
}
