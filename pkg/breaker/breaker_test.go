package breaker_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/breaker"
)

func TestMinimumIsAllowedBeforeAnyGoodEvent(t *testing.T) {
	t.Parallel()
	b := breaker.New(breaker.Limit{Window: 1000, Share: 0.05, Minimum: 10})
	allowed := 0
	for range 100 {
		if b.Allow(0) {
			allowed++
		}
	}
	if allowed != 10 {
		t.Errorf("%d events were allowed, want the minimum of 10", allowed)
	}
	if events, aside := b.Recent(); events != 10 || aside != 10 {
		t.Errorf("%d of %d events set aside, want 10 of 10: a refused event does not count", aside, events)
	}
}

func TestEventsOutsideTheWindowAreForgotten(t *testing.T) {
	t.Parallel()
	b := breaker.New(breaker.Limit{Window: 100, Share: 0.02})
	b.Good(99)
	for i, want := range []bool{true, true, false} {
		if got := b.Allow(0); got != want {
			t.Errorf("bad event %d of the window was allowed: %v, want %v", i+1, got, want)
		}
	}
	b.Good(97)
	if b.Allow(0) {
		t.Error("an event was allowed while both are still in the window")
	}
	b.Good(1)
	if !b.Allow(0) {
		t.Error("no event was allowed after the first has left the window")
	}
}

func TestShareOfOneAllowsEverything(t *testing.T) {
	t.Parallel()
	b := breaker.New(breaker.Limit{Window: 100, Share: 1})
	for waiting := 500; waiting >= 0; waiting-- {
		if !b.Allow(waiting) {
			t.Fatalf("an event was not allowed while %d others waited", waiting)
		}
	}
}

// TestShareHoldsInEveryWindow compares the breaker with a list of all events.
func TestShareHoldsInEveryWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := breaker.Limit{
			Window:  rapid.IntRange(1, 30).Draw(t, "window"),
			Share:   rapid.Float64Range(0, 1).Draw(t, "share"),
			Minimum: rapid.IntRange(0, 5).Draw(t, "minimum"),
		}
		b := breaker.New(limit)
		var aside []bool
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if n := rapid.IntRange(0, 5).Draw(t, "good"); n > 0 {
				b.Good(n)
				aside = append(aside, make([]bool, n)...)
			}
			recent := append(append([]bool(nil), aside...), true)
			recent = recent[max(0, len(recent)-limit.Window):]
			count := 0
			for _, is := range recent {
				if is {
					count++
				}
			}
			waiting := rapid.IntRange(0, 5).Draw(t, "waiting")
			want := count+waiting <= max(limit.Minimum, int(limit.Share*float64(len(recent)+waiting)))
			if got := b.Allow(waiting); got != want {
				t.Fatalf("allowed: %v, want %v, with %d of %d set aside and %d waiting", got, want, count, len(recent), waiting)
			}
			if want {
				aside = append(aside, true)
			}
		}
	})
}
