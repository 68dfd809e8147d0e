package app

import (
	"math"
	"runtime/debug"
	"testing"
)

// Not parallel: GOGC and the memory limit hold for the whole process.
func TestCollectorUsesTheMemoryLimit(t *testing.T) {
	percent := debug.SetGCPercent(100)
	limit := debug.SetMemoryLimit(-1)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
	for _, test := range []struct {
		name  string
		limit int64
		gogc  bool
		want  int
	}{
		{"no limit", math.MaxInt64, false, 100},
		{"limit", 460 << 20, false, collectorPercent},
		{"limit and GOGC", 460 << 20, true, 100},
	} {
		debug.SetGCPercent(100)
		debug.SetMemoryLimit(test.limit)
		relaxCollector(func(name string) (string, bool) { return "100", test.gogc && name == "GOGC" })
		if got := debug.SetGCPercent(100); got != test.want {
			t.Errorf("%s: GOGC is %d, want %d", test.name, got, test.want)
		}
	}
}
