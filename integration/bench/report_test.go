package bench

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// twoRounds is a report of one row in two rounds.
func twoRounds() *Report {
	row := Row{Name: "publisher/steady", Title: "Publisher"}
	for _, rate := range []float64{90_000, 110_000} {
		row.readings = append(row.readings, reading{
			figures: []figure{{"", unitRate, rate}},
			limits:  []limit{{figure: figure{titleSend, unitRate, 2 * rate}, cpu: 7, allocs: 17}},
			costs:   []cost{{service: "publisher", cpu: 10, allocs: 12.5, peak: 100}},
		})
	}
	return &Report{Host: Host{CPU: "a CPU", System: "linux/amd64"}, Rows: []Row{row}}
}

func TestTableShowsMedianSpreadAndShare(t *testing.T) {
	t.Parallel()
	table := twoRounds().table()
	for _, want := range []string{
		"| Publisher ", "| 100,000 events/s |", "| 90,000 to 110,000 |", "| bare azservicebus: ready-made", "| 200,000 events/s, 7.00 µs, 17.0 allocations |", "| 0.50 ",
		"| 10.0 µs ", "| 12.5 ", "| 100 MiB ",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	lines := strings.Split(strings.TrimSpace(table), "\n")[2:]
	for _, line := range lines {
		if len([]rune(line)) != len([]rune(lines[0])) {
			t.Errorf("the columns do not line up in\n%s", table)
		}
	}
}

func TestTableSaysWhenTheMachineWasBusy(t *testing.T) {
	t.Parallel()
	for load, busy := range map[string]bool{"0.21": false, "17.40": true, "unknown": false} {
		report := twoRounds()
		report.Host.LoadBefore = load
		if got := strings.Contains(report.table(), "The machine was busy"); got != busy {
			t.Errorf("load average %s: busy %t", load, got)
		}
	}
}

// TestRatiosCompareRowsOfTheSameRound checks that a machine that was slow in one round does
// not distort the ratio. The medians of the two sides may be from different rounds.
func TestRatiosCompareRowsOfTheSameRound(t *testing.T) {
	t.Parallel()
	r := Row{Title: "row"}
	for _, of := range [][2]float64{{100, 200}, {10, 20}, {50, 150}} {
		r.readings = append(r.readings, reading{figures: []figure{{"", unitRate, of[0]}}, limits: []limit{{figure: figure{"limit", unitRate, of[1]}}}})
	}
	if got := r.lines()[0][5]; got != "0.50" {
		t.Errorf("ratio %s", got)
	}
}

func TestLimitsOfTheSameCoresAreCombined(t *testing.T) {
	t.Parallel()
	got := oneAfterTheOther([]limit{{figure: figure{value: 100}, cpu: 7, allocs: 17}, {figure: figure{value: 300}, cpu: 1, allocs: 2}})
	if len(got) != 1 || math.Abs(got[0].value-75) > 1e-9 || got[0].cpu != 8 || got[0].allocs != 19 {
		t.Errorf("got %+v", got)
	}
	if got := oneAfterTheOther(nil); got != nil {
		t.Errorf("of no limits: %+v", got)
	}
}

func TestBenchmarksHaveOneLineForEachRound(t *testing.T) {
	t.Parallel()
	if got := unitName("2 processes, to the state database", "commands/s for each process"); strings.ContainsAny(got, " ,") {
		t.Errorf("unit %q", got)
	}
	want := "BenchmarkPublisher/steady 1 90000 events/s 10 publisher-cpu-µs/event 12.5 publisher-allocs/event 100 publisher-peak-MiB\n"
	if got := twoRounds().benchmarks(); !strings.Contains(got, want) || strings.Count(got, "\nBenchmark") != 2 {
		t.Errorf("got\n%s", got)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 3}, 2.5}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
	}
}

func TestRowNamesAreUnique(t *testing.T) {
	t.Parallel()
	names := Names()
	if unique := slices.Compact(slices.Sorted(slices.Values(names))); len(unique) != len(names) || len(names) < 15 {
		t.Errorf("rows %q", names)
	}
}

func TestRunListsTheRowsIfNoneMatches(t *testing.T) {
	t.Parallel()
	_, err := Run(t.Context(), Options{Rows: "nothing"})
	if err == nil || !strings.Contains(err.Error(), "publisher/steady") {
		t.Errorf("got %v", err)
	}
}

// TestDisturbedWorkloadsHaveTheStatedShares checks the workloads with disturbances.
func TestDisturbedWorkloadsHaveTheStatedShares(t *testing.T) {
	t.Parallel()
	const events = 40_000
	hot := addHot(shop.New(events, 1))
	if share := float64(hotEvents(hot)) / float64(len(hot.Events)); math.Abs(share-0.2) > 0.01 {
		t.Errorf("the hot aggregate has %.3f of the events", share)
	}
	large := 0
	for _, ev := range addLarge(shop.New(events, 1)).Events {
		for _, field := range ev.Payload {
			if text, ok := field.Value.(string); ok && len(text) == largeBytes {
				large++
			}
		}
	}
	if large != events/largeEvery {
		t.Errorf("%d large events", large)
	}
	poisoned := addPoison(shop.New(events, 1))
	if share := float64(len(poisoned.until)) / float64(poisoned.Aggregates()); math.Abs(share-0.01) > 0.003 {
		t.Errorf("%.4f of the aggregates are poisoned", share)
	}
	if poisoned.parked < len(poisoned.until) || poisoned.parked > events/20 {
		t.Errorf("%d events of parked aggregates", poisoned.parked)
	}
}
