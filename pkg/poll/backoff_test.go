package poll_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

func TestWaitsDoubleWithinTheirBoundsAndStartOverAfterReset(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	b := poll.Backoff{First: 100 * ms, Max: time.Second}
	for range 3 {
		for i, limit := range []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1000 * ms, 1000 * ms} {
			if wait := b.Next(); wait < limit/2 || wait > limit {
				t.Errorf("wait %d is %v, want %v to %v", i, wait, limit/2, limit)
			}
		}
		b.Reset()
	}
}

func TestWaitsAreRandom(t *testing.T) {
	t.Parallel()
	seen := make(map[time.Duration]bool)
	for range 20 {
		b := poll.Backoff{First: time.Minute, Max: time.Minute}
		seen[b.Next()] = true
	}
	if len(seen) < 10 {
		t.Errorf("20 processes come back at %d moments", len(seen))
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := poll.Wait(t.Context(), time.Minute); err != nil || time.Since(begun) != time.Minute {
			t.Errorf("waited %v: %v", time.Since(begun), err)
		}
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(enough) })
		begun = time.Now()
		if err := poll.Wait(ctx, time.Minute); !errors.Is(err, enough) || time.Since(begun) != time.Second {
			t.Errorf("waited %v: %v", time.Since(begun), err)
		}
	})
}

func TestWaitAfterAnyNumberOfFailuresStaysInItsBounds(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for failures, limit := range map[int]time.Duration{0: 100 * ms, 1: 100 * ms, 2: 200 * ms, 4: 800 * ms, 5: time.Second, math.MaxInt: time.Second} {
		if wait := poll.After(100*ms, time.Second, failures); wait < limit/2 || wait > limit {
			t.Errorf("wait after %d failures is %v, want %v to %v", failures, wait, limit/2, limit)
		}
	}
	if wait := poll.After(time.Second, math.MaxInt64, math.MaxInt); wait < math.MaxInt64/2 {
		t.Errorf("wait is %v: it overflowed", wait)
	}
	if wait := poll.After(time.Minute, time.Second, 3); wait > time.Second {
		t.Errorf("wait is %v, above its bound", wait)
	}
}
