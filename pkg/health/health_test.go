package health_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/health"
)

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

func TestLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := health.New()
		alive := func(what string) {
			t.Helper()
			if err := h.Live(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		alive("no loops")

		stream := h.Loop("stream", 10*time.Second)
		pass(time.Hour)
		alive("a loop that never began")

		stream.Beat()
		pass(10 * time.Second)
		alive("silent as long as allowed")
		pass(time.Millisecond)
		err := h.Live()
		if err == nil || err.Error() != "loop stream has made no progress for 10.001s, at most 10s are allowed" {
			t.Errorf("stale: %v", err)
		}

		h.Loop("checkpoint", time.Second).Beat()
		pass(2 * time.Second)
		if err := h.Live(); err == nil || strings.Count(err.Error(), "\n") != 1 || !strings.Contains(err.Error(), "loop checkpoint") {
			t.Errorf("two stale: %v", err)
		}

		stream.Idle()
		if err := h.Live(); err == nil || strings.Contains(err.Error(), "stream") {
			t.Errorf("one idle: %v", err)
		}
		h.Loop("checkpoint", time.Minute)
		alive("allowed more silence")
		stream.Beat()
		alive("beating again")
	})
}

func TestLoopsOfOneNameAreOneLoop(t *testing.T) {
	t.Parallel()
	h := health.New()
	if h.Loop("a", time.Second) != h.Loop("a", time.Minute) || h.Loop("a", time.Second) == h.Loop("b", time.Second) {
		t.Error("loops with the same name differ, or loops with different names are the same")
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	h := health.New()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				l := h.Loop("l", time.Minute)
				l.Beat()
				h.Ready("r", func(context.Context) error { return nil })
				if err := errors.Join(h.Live(), h.CheckReady(t.Context())); err != nil {
					t.Error(err)
				}
				l.Idle()
			}
		})
	}
	wg.Wait()
}

func TestCheckReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := health.New()
		if err := h.CheckReady(t.Context()); err != nil {
			t.Errorf("no checks: %v", err)
		}
		h.Ready("mongodb", func(context.Context) error { return errors.New("no primary\nnor secondary") })
		h.Ready("fine", func(context.Context) error { return nil })
		h.Ready("slow", func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
		h.Ready("stuck", func(ctx context.Context) error {
			<-ctx.Done()
			pass(time.Minute)
			return nil
		})
		start := time.Now()
		err := h.CheckReady(t.Context())
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("took %s", took)
		}
		if err == nil || !strings.HasPrefix(err.Error(), "mongodb: no primary; nor secondary\n") ||
			!strings.HasSuffix(err.Error(), "stuck: context deadline exceeded") || strings.Contains(err.Error(), "fine") {
			t.Errorf("got %v", err)
		}

		for _, name := range []string{"mongodb", "slow", "stuck"} {
			h.Ready(name, func(context.Context) error { return nil })
		}
		if err := h.CheckReady(t.Context()); err != nil {
			t.Errorf("replaced: %v", err)
		}
		synctest.Wait()
		pass(time.Minute) // the stuck one ends
	})
}
