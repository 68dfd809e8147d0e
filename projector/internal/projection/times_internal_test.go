package projection

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// zones have different rules, with changes at midnight, by half an hour and by a day.
var zones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata", "Australia/Lord_Howe",
	"Pacific/Apia", "Africa/Casablanca", "Asia/Beirut", "America/Toronto", "+05:45",
}

func drawTime(t *rapid.T) (time.Time, *time.Location) {
	zone, err := zoneOf(rapid.SampledFrom(zones).Draw(t, "zone"))
	if err != nil {
		t.Fatal(err)
	}
	from, until := time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	return time.UnixMilli(rapid.Int64Range(from.UnixMilli(), until.UnixMilli()).Draw(t, "time")).UTC(), zone
}

// TestStartOfIsTheFirstTimeOfItsUnit checks that the result is not later than the time, is in
// the same unit, and that no earlier time of the unit is.
func TestStartOfIsTheFirstTimeOfItsUnit(t *testing.T) {
	t.Parallel()
	same := map[string]string{"day": "%Y-%m-%d", "week": "%G-%V", "month": "%Y-%m", "year": "%Y", "hour": "%Y-%m-%d %H", "minute": "%Y-%m-%d %H:%M"}
	rapid.Check(t, func(t *rapid.T) {
		at, zone := drawTime(t)
		unit := rapid.SampledFrom(sortedKeys(same)).Draw(t, "unit")
		start, err := startOf(at, unit, zone)
		if err != nil {
			t.Fatal(err)
		}
		shows := func(at time.Time) string {
			text, err := strftime(at.In(zone), same[unit])
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		if start.After(at) || shows(start) != shows(at) {
			t.Fatalf("the %s of %s begins at %s", unit, at.In(zone), start.In(zone))
		}
		if again, _ := startOf(start, unit, zone); !again.Equal(start) {
			t.Fatalf("the %s of %s begins at %s", unit, start.In(zone), again.In(zone))
		}
		if unit != "hour" && unit != "minute" && shows(start.Add(-time.Millisecond)) == shows(at) {
			t.Fatalf("%s is not the first time of its %s", start.In(zone), unit)
		}
	})
}

// TestPlusMonthsKeepsTheDay compares with time.AddDate, which normalizes a day that a month
// does not have instead of taking the last one.
func TestPlusMonthsKeepsTheDay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at, zone := drawTime(t)
		n := rapid.Int64Range(-1200, 1200).Draw(t, "months")
		got, err := plus(at, n, "months", time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		want := at.AddDate(0, int(n), 0)
		if want.Day() != at.Day() {
			want = want.AddDate(0, 0, -want.Day()) // the last day of the month before
		}
		if !got.Equal(want) {
			t.Fatalf("%s and %d months are %s, want %s", at, n, got, want)
		}
		// In a zone, the clocks show the same time of day unless they skip it.
		local, err := plus(at, n, "months", zone)
		if err != nil {
			t.Fatal(err)
		}
		clock := at.In(zone).Format(time.TimeOnly)
		if shown := local.In(zone).Format(time.TimeOnly); shown != clock {
			start, _ := local.In(zone).ZoneBounds()
			if local.Sub(start) >= day {
				t.Fatalf("%s and %d months are %s", at.In(zone), n, local.In(zone))
			}
		}
	})
}
