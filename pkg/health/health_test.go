package health_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

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
		if err == nil || err.Error() != "loop stream has made no progress for 10s, at most 10s are allowed" {
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
				if v := h.Verdict(); h.Live() != nil || v.State != health.OK {
					t.Error(v)
				}
				l.Idle()
			}
		})
	}
	wg.Wait()
}

func TestVerdictNamesChecksThatFailOrAreSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := health.New()
		if v := h.Verdict(); v.State != health.OK || v.String() != "ok" {
			t.Errorf("no checks: %v", v)
		}
		pass(time.Second)
		h.Ready("mongodb", func(context.Context) error { return errors.New("no primary\nnor secondary") })
		h.Ready("fine", func(context.Context) error { return nil })
		h.Ready("slow", func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
		var calls atomic.Int64
		h.Ready("stuck", func(ctx context.Context) error {
			calls.Add(1)
			<-ctx.Done()
			pass(time.Minute)
			return nil
		})
		start := time.Now()
		v := h.Verdict()
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("took %s", took)
		}
		// The slow one returns at the very moment of the timeout.
		if text := v.String(); !strings.HasPrefix(text, "not ready\nmongodb: no primary; nor secondary\n") || !strings.HasSuffix(text, "\nstuck: no answer within 2s") || strings.Contains(text, "fine") {
			t.Errorf("got %q", text)
		}
		pass(time.Second)
		if h.Verdict(); calls.Load() != 1 {
			t.Errorf("a check that does not return was called %d times", calls.Load())
		}

		// A source does not hide another one of its name.
		h.Watch("mongodb", func(context.Context) []health.Condition { return nil })
		pass(time.Second)
		if text := h.Verdict().String(); !strings.Contains(text, "mongodb: no primary") {
			t.Errorf("two sources of one name: %q", text)
		}
		synctest.Wait()
		pass(time.Minute) // the stuck one ends
	})
}

// Probes, viewers and scrapes share an evaluation, so they do not multiply the requests to
// the stores.
func TestVerdictIsSharedForASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := health.New()
		var asked atomic.Int64
		h.Ready("mongodb", func(context.Context) error {
			asked.Add(1)
			return nil
		})
		for range 3 {
			for range 500 {
				h.Verdict()
			}
			pass(time.Second)
		}
		if asked.Load() != 3 {
			t.Errorf("asked %d times in 3 s, want 3", asked.Load())
		}
	})
}

func TestVerdictIsThatOfTheWorstCondition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := health.New()
		away := health.Condition{Name: "broker-unreachable", State: health.Degraded, Text: "Service Bus does not answer", Remedy: "Check the network."}
		h.Watch("broker", func(context.Context) []health.Condition { return []health.Condition{away} })
		began := time.Now()
		if v := h.Verdict(); v.State != health.Degraded || v.String() != "degraded\nbroker-unreachable: Service Bus does not answer. Check the network." {
			t.Errorf("got %q", v)
		}
		w := httptest.NewRecorder()
		health.Handler(h, health.Options{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", http.NoBody))
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Body.String(), "degraded\nbroker-unreachable: ") {
			t.Errorf("/readyz of a degraded process: %d %q", w.Code, w.Body)
		}
		h.Loop("stream", -time.Second).Beat()
		pass(time.Minute)
		v := h.Verdict()
		if v.State != health.NotReady || len(v.Conditions) != 2 || v.Conditions[0].Name != "loop-stuck" {
			t.Errorf("got %q", v)
		}
		if !v.Conditions[1].Since.Equal(began) {
			t.Errorf("since %s, want %s", v.Conditions[1].Since, began)
		}
	})
}

// The log has the beginning and the end of each condition once, and nothing of a passing one.
func TestFollowLogsBeginningAndEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := health.New()
		var trouble atomic.Bool
		h.Watch("broker", func(context.Context) []health.Condition {
			if !trouble.Load() {
				return nil
			}
			return []health.Condition{{Name: "broker-unreachable", State: health.Degraded, Text: "no answer"}}
		})
		var log strings.Builder
		ctx, end := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "condition", Help: "h"}, []string{"condition", "state"})
		ended.Go(func() { h.Follow(ctx, zerolog.New(&log), gauge) })
		for _, d := range []time.Duration{time.Minute, time.Second} { // one that lasts, one that passes
			pass(10*time.Second + time.Second/2)
			trouble.Store(true)
			pass(d)
			if d > time.Second && testutil.ToFloat64(gauge.WithLabelValues("broker-unreachable", "degraded")) != 1 {
				t.Error("the gauge does not show the condition")
			}
			trouble.Store(false)
		}
		pass(10 * time.Second)
		if n := testutil.CollectAndCount(gauge); n != 0 {
			t.Errorf("the gauge shows %d conditions after their end", n)
		}
		end()
		ended.Wait()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], `"health condition began"`) || !strings.Contains(lines[0], `"verdict":"degraded"`) ||
			!strings.Contains(lines[1], `"health condition ended"`) || !strings.Contains(lines[1], `"verdict":"ok"`) || !strings.Contains(lines[1], `"lasted":"1m`) {
			t.Errorf("log:\n%s", log.String())
		}
	})
}

func TestTogetherNamesACommonConditionOnce(t *testing.T) {
	t.Parallel()
	away := health.Condition{Name: "broker-unreachable", State: health.Degraded, Text: "no answer"}
	refused := health.Condition{Name: "mongodb-access", State: health.NotReady, Text: "refused"}
	parked := health.Condition{Name: "parked", Subject: "orders", State: health.Degraded, Text: "3 aggregates"}
	report := func(process string, c ...health.Condition) health.Report {
		return health.Report{Process: process, Verdict: health.Judge(c)}
	}
	v := health.Together([]health.Condition{parked}, []health.Report{report("a", away, parked), report("b", away, refused)})
	want := "degraded\nbroker-unreachable: no answer (reported by a, b)\nmongodb-access: refused (reported by b)\nparked orders: 3 aggregates"
	if v.String() != want {
		t.Errorf("got\n%s\nwant\n%s", v, want)
	}
	if v := health.Together(nil, []health.Report{report("a", parked)}, "parked"); v.State != health.OK {
		t.Errorf("the command finds nothing parked, and says: %s", v)
	}
	if v := health.Together(nil, []health.Report{report("a", refused), report("b", refused)}); v.State != health.NotReady {
		t.Errorf("no process is ready: %s", v)
	}
	if v := health.Together(nil, []health.Report{report("a"), report("b")}); v.State != health.OK {
		t.Errorf("all processes are ok: %s", v)
	}
}

func TestLastingIgnoresAPassingCondition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		holds := true
		run := health.Lasting(10*time.Second, func(context.Context) []health.Condition {
			if !holds {
				return nil
			}
			return []health.Condition{{Name: "retrying"}}
		})
		begun := time.Now()
		for i, want := range []int{0, 0, 1, 1} {
			if got := run(t.Context()); len(got) != want || want == 1 && !got[0].Since.Equal(begun) {
				t.Errorf("after %d s: %+v", 5*i, got)
			}
			pass(5 * time.Second)
		}
		holds = false
		run(t.Context())
		holds = true
		if got := run(t.Context()); len(got) != 0 {
			t.Errorf("a condition that began again: %+v", got)
		}
	})
}

// What the checks use is closed after End, so End waits for those that run.
func TestEndWaitsForTheChecksThatRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := health.New()
		asked, running := 0, 0
		h.Ready("mongodb", func(ctx context.Context) error {
			asked++
			running++
			<-ctx.Done()
			running--
			return context.Cause(ctx)
		})
		go h.Verdict()
		synctest.Wait()
		h.End()
		if asked != 1 || running != 0 {
			t.Errorf("asked %d times, and %d checks run after End", asked, running)
		}
		<-time.After(time.Minute)
		v := h.Verdict()
		if v.State != health.NotReady || len(v.Conditions) != 1 || v.Conditions[0].Text != "it is stopping" || asked != 1 {
			t.Errorf("after End: %+v, asked %d times", v, asked)
		}
	})
}

// A condition that only a command has, such as no-leader, has no known beginning.
func TestUnknownBeginningIsLeftOut(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(health.Condition{Name: "no-leader"})
	if err != nil || strings.Contains(string(text), "since") {
		t.Errorf("got %s, %v", text, err)
	}
}
