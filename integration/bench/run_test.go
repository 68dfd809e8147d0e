package bench

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// TestRowsRun runs each kind of row with few events, to find errors before a long run of
// `make bench`. It checks no speed.
func TestRowsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs processes, and -short leaves them out: run make test-all")
	}
	binaries, err := harness.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Binaries: binaries, Self: self, Rounds: 1, Short: true, LatencyFor: time.Second,
		Rows: `^(publisher/steady|projector/buckets|pipeline/parked|latency/at-25|view/hot)$`, Limits: true,
	}
	s := o.scale()
	s.steady, s.buckets, s.pipeline, s.growth, s.view = 20_000, 4000, 2000, 500, 1000
	s.capacityFor = 300 * time.Millisecond
	report, err := measureRows(t.Context(), o, s)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) != 5 {
		t.Fatalf("%d rows", len(report.Rows))
	}
	for _, row := range report.Rows {
		if len(row.readings) != 1 {
			t.Fatalf("%s has %d readings", row.Name, len(row.readings))
		}
		one := row.readings[0]
		for _, f := range one.figures {
			if f.value <= 0 {
				t.Errorf("%s: figure %+v", row.Name, f)
			}
		}
		if limits := !strings.HasPrefix(row.Name, "latency/"); limits != (len(one.limits) > 0) || len(one.costs) == 0 {
			t.Errorf("%s has the limits %+v and the costs %+v", row.Name, one.limits, one.costs)
		}
		for _, c := range one.costs {
			if c.cpu < 0 || c.peak <= 0 {
				t.Errorf("%s: costs %+v", row.Name, c)
			}
		}
	}
}
