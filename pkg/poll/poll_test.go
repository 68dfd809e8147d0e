package poll_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

// moments returns when the calls of a loop began, relative to the loop's start. After that
// many calls, a call ends the loop's context.
func moments(t *testing.T, calls int, loop func(ctx context.Context, call func())) []time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var found []time.Duration
	begun := time.Now()
	loop(ctx, func() {
		if found = append(found, time.Since(begun)); len(found) == calls {
			cancel()
		}
	})
	return found
}

func TestEveryCallsAtOnceAndThenEachInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		found := moments(t, 3, func(ctx context.Context, call func()) { poll.Every(ctx, time.Second, call) })
		if want := []time.Duration{0, time.Second, 2 * time.Second}; !slices.Equal(found, want) {
			t.Errorf("calls at %v, want %v", found, want)
		}
	})
}

func TestEveryMakesOneCallForSeveralMissedIntervals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := true
		found := moments(t, 3, func(ctx context.Context, call func()) {
			poll.Every(ctx, time.Second, func() {
				call()
				if slow {
					slow = false
					<-time.After(3500 * time.Millisecond)
				}
			})
		})
		if want := []time.Duration{0, 3500 * time.Millisecond, 4 * time.Second}; !slices.Equal(found, want) {
			t.Errorf("calls at %v, want %v", found, want)
		}
	})
}

func TestSpreadStaysWithinAQuarter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := make(map[time.Duration]bool)
		for range 20 {
			found := moments(t, 3, func(ctx context.Context, call func()) {
				poll.Spread(ctx, time.Minute, func() time.Duration {
					call()
					return 8 * time.Second
				})
			})
			if len(found) != 3 || found[0] > 15*time.Second {
				t.Fatalf("calls at %v, want 3, the first within 15 s", found)
			}
			for i, at := range found[1:] {
				if wait := at - found[i]; wait < 6*time.Second || wait > 10*time.Second {
					t.Errorf("waited %v, want 6 s to 10 s", wait)
				}
			}
			seen[found[2]] = true
		}
		if len(seen) < 10 {
			t.Errorf("20 processes ask at %d moments", len(seen))
		}
	})
}

func TestSpreadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		begun := time.Now()
		poll.Spread(ctx, 1000*time.Hour, func() time.Duration { return time.Hour })
		if took := time.Since(begun); took > time.Millisecond {
			t.Errorf("Spread ended after %v", took)
		}
	})
}

func TestBackgroundLoopEndsWhenStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := false
		stop := poll.Beside(t.Context(), func(ctx context.Context) {
			<-ctx.Done()
			ended = true
		})
		stop()
		if !ended {
			t.Error("stop has not waited for the loop's end")
		}
	})
}
