package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRowThatFailsOrHangsDoesNotStopOtherRows checks that a run ends and has the rows that
// could be measured, whatever one row does.
func TestRowThatFailsOrHangsDoesNotStopOtherRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		good := func(context.Context, *bench) (reading, error) {
			<-time.After(30 * time.Second)
			return reading{figures: []figure{{"", unitRate, 100}}}, nil
		}
		selected := []row{
			{name: "first", about: time.Minute, measure: good},
			{name: "fails", measure: func(context.Context, *bench) (reading, error) { return reading{}, errors.New("no | luck\nlog") }},
			{name: "waits", measure: func(ctx context.Context, _ *bench) (reading, error) {
				<-ctx.Done()
				return reading{}, context.Cause(ctx)
			}},
			{name: "hangs", measure: func(_ context.Context, b *bench) (reading, error) {
				b.steady = 7
				<-released
				return reading{}, nil
			}},
			{name: "empty", measure: func(context.Context, *bench) (reading, error) { return reading{}, nil }},
			{name: "last", about: 40 * time.Second, measure: func(ctx context.Context, b *bench) (reading, error) {
				if b.steady != 0 {
					t.Error("the row that was abandoned has changed the state of the run")
				}
				return good(ctx, b)
			}},
		}
		var progress strings.Builder
		rows, err := measureRounds(t.Context(), Options{Rounds: 1, Progress: &progress}, scale{}, selected)
		close(released)
		for i, measured := range []bool{true, false, false, false, false, true} {
			if got := len(rows[i].Figures) == 1; got != measured || (len(rows[i].Failures) == 0) != measured {
				t.Errorf("row %s: %+v", rows[i].Name, rows[i])
			}
		}
		for _, want := range []string{"fails: no | luck", "waits: not done within 5m0s", "hangs: the row did not end", "empty: the row has no figure"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not say %q: %v", want, err)
			}
		}
		for _, want := range []string{
			"6 rows in 1 round: about 1m40s on two quiet cores\n", "row 6 of 6: last …\n", "first: 100 events/s, after 30s; about 40s left\n", "fails: FAILED: no | luck",
		} {
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
		synctest.Wait()
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
	if !errors.Is(err, context.Canceled) || measured != 1 || len(rows[0].Figures) != 1 {
		t.Errorf("%d measured: %v", measured, err)
	}
}

// TestForecastUsesTheTimesOfEarlierRounds checks that later rounds are forecast by the
// times of the earlier ones.
func TestForecastUsesTheTimesOfEarlierRounds(t *testing.T) {
	t.Parallel()
	p := newProgress(&Options{Rounds: 3, Progress: &strings.Builder{}}, scale{latencyFor: time.Minute},
		[]row{{name: "a", about: 30 * time.Second}, {name: "b", about: 10 * time.Second, loads: true}})
	if left := p.left(0, 0); left != 3*100*time.Second {
		t.Errorf("at first: %s", left)
	}
	p.about[0] = 50 * time.Second
	if left := p.left(1, 1); left != 70*time.Second+120*time.Second {
		t.Errorf("in the second round, after the first row: %s", left)
	}
}
