package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRowThatFailsDoesNotStopOtherRows checks that a run ends and has the rows that
// could be measured, whatever one row does.
func TestRowThatFailsDoesNotStopOtherRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		good := func(context.Context, *bench) (reading, error) {
			<-time.After(30 * time.Second)
			return reading{figures: []figure{{"", unitRate, 100}}}, nil
		}
		selected := []row{
			{name: "first", measure: good},
			{name: "fails", measure: func(context.Context, *bench) (reading, error) { return reading{}, errors.New("no | luck\nlog") }},
			{name: "waits", measure: func(ctx context.Context, _ *bench) (reading, error) {
				<-ctx.Done()
				return reading{}, context.Cause(ctx)
			}},
			{name: "empty", measure: func(context.Context, *bench) (reading, error) { return reading{}, nil }},
			{name: "last", measure: good},
		}
		var progress strings.Builder
		rows, err := measureRounds(t.Context(), Options{Rounds: 1, Progress: &progress}, scale{}, selected)
		for i, measured := range []bool{true, false, false, false, true} {
			if got := len(rows[i].readings) == 1; got != measured || (len(rows[i].Failures) == 0) != measured {
				t.Errorf("row %s: %+v", rows[i].Name, rows[i])
			}
		}
		for _, want := range []string{"fails: no | luck", "waits: not done within 5m0s", "empty: the row has no figure"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not say %q: %v", want, err)
			}
		}
		for _, want := range []string{"row 5 of 5: last …\n", "first: 100 events/s\n", "fails FAILED: no | luck"} {
			if !strings.Contains(progress.String(), want) {
				t.Errorf("the progress lacks %q:\n%s", want, &progress)
			}
		}
		table := (&Report{Rows: rows}).table()
		if !strings.Contains(table, "| not measured ") || !strings.Contains(table, "| no / luck ") {
			t.Errorf("the table does not show which rows failed:\n%s", table)
		}
		if text := (&Report{Rows: rows}).benchmarks(); strings.Count(text, "Benchmark") != 2 {
			t.Errorf("benchmarks:\n%s", text)
		}
	})
}

func TestCancelledRunMeasuresNoMoreRows(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	measured := 0
	one := row{name: "one", measure: func(context.Context, *bench) (reading, error) {
		measured++
		cancel()
		return reading{figures: []figure{{"", unitRate, 1}}}, nil
	}}
	rows, err := measureRounds(ctx, Options{Rounds: 3, Progress: &strings.Builder{}}, scale{}, []row{one, one})
	if !errors.Is(err, context.Canceled) || measured != 1 || len(rows[0].readings) != 1 {
		t.Errorf("%d measured: %v", measured, err)
	}
}
