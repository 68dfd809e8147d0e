package publish_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// answers returns the given answers one after another, and then ok.
func answers(first ...answer) func([]*event.Message) answer {
	return func([]*event.Message) answer {
		if len(first) == 0 {
			return ok(time.Millisecond)
		}
		next := first[0]
		first = first[1:]
		return next
	}
}

func TestAllLanesWaitForABusyBroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(answers(fails(publish.FaultBusy)))
		h := startHarness(t, b, func(o *publish.Options) { o.Batching = publish.BatchingSession })
		h.submit(t, "first", 1)
		synctest.Wait()
		refused := time.Now()
		for id := range int64(50) {
			h.submit(t, fmt.Sprintf("other-%d", id), id+2)
		}
		h.finish(t)
		sends := b.seen()
		if len(sends) != 52 {
			t.Errorf("%d sends, want the refused one, it again and 50 others", len(sends))
		}
		if waited := sends[1].at.Sub(refused); waited < 2*time.Second || waited > 3*time.Second {
			t.Errorf("the next send came %v after the refusal, want 2 s and a little", waited)
		}
	})
}

func TestRepeatedBusyRepliesLengthenTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		busy := fails(publish.FaultBusy)
		b := newBroker(answers(busy, busy, busy, busy, busy, busy, busy))
		h := startHarness(t, b, nil)
		h.submit(t, "a", 1)
		h.finish(t)
		sends := b.seen()
		for i, least := range []float64{2, 4, 8, 16, 30, 30, 30} {
			if waited := sends[i+1].at.Sub(sends[i].at).Seconds(); waited < least || waited > 1.2*least {
				t.Errorf("wait %d is %v s, want %v s and up to a fifth", i+1, waited, least)
			}
		}
	})
}

// TestRefusalsInFlightProlongTheWait: each refusal requires its own 2 s, but a burst of
// refusals reduces the rate only once.
func TestRefusalsInFlightProlongTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		early, late := fails(publish.FaultBusy), fails(publish.FaultBusy)
		early.after, late.after = time.Millisecond, 1500*time.Millisecond
		b := newBroker(answers(early, late))
		h := startHarness(t, b, func(o *publish.Options) { o.Batching = publish.BatchingOff })
		start := time.Now()
		h.submit(t, "a", 1)
		h.submit(t, "b", 2)
		h.finish(t)
		sends := b.seen()
		if len(sends) != 4 {
			t.Fatalf("%d sends, want 4", len(sends))
		}
		if waited := sends[2].at.Sub(start); waited < 3500*time.Millisecond || waited > 4*time.Second {
			t.Errorf("sending went on after %v, want 2 s after the last refusal, so 3.5 s", waited)
		}
	})
}

func TestTransientFaultsBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failing := make([]answer, 12)
		for i := range failing {
			failing[i] = fails(publish.FaultTransient)
		}
		b := newBroker(answers(failing...))
		h := startHarness(t, b, nil)
		h.submit(t, "a", 1)
		h.finish(t)
		sends := b.seen()
		wait := 50 * time.Millisecond
		for i := range failing {
			waited := sends[i+1].at.Sub(sends[i].at)
			if waited < wait/2 || waited > wait {
				t.Errorf("wait %d is %v, want between %v and %v", i+1, waited, wait/2, wait)
			}
			wait = min(2*wait, 10*time.Second)
		}
	})
}

func TestSlowSendTimesOutAndReplacesTheConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(answers(ok(time.Hour)))
		h := startHarness(t, b, func(o *publish.Options) {
			o.Connections = 1
			o.SendTimeout = 10 * time.Second
		})
		start := time.Now()
		h.submit(t, "a", 1)
		h.finish(t)
		if took := time.Since(start); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("took %v, want the timeout and a little", took)
		}
		if _, sends, conns := b.count(); sends != 2 || conns != 2 {
			t.Errorf("%d sends over %d connections, want 2 over 2", sends, conns)
		}
	})
}

func TestLostConnectionIsReplacedOnceForAllItsLanes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failing := make([]answer, 100)
		for i := range failing {
			failing[i] = fails(publish.FaultDisconnected)
			failing[i].after = time.Millisecond
		}
		b := newBroker(answers(append([]answer{ok(time.Millisecond)}, failing...)...))
		h := startHarness(t, b, func(o *publish.Options) {
			o.Connections = 1
			o.Batching = publish.BatchingOff
		})
		h.submit(t, "served", 1)
		<-time.After(time.Second)
		for id := range int64(100) {
			h.submit(t, fmt.Sprintf("lane-%d", id), id+2)
		}
		h.finish(t)
		if _, sends, conns := b.count(); sends != 201 || conns != 2 {
			t.Errorf("%d sends over %d connections, want 201 over 2", sends, conns)
		}
	})
}

func TestOtherConnectionsContinueDuringAReconnect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := fails(publish.FaultDisconnected)
		lost.stored = true
		b := newBroker(answers(lost))
		b.connect = func(n int) error {
			if n > 2 {
				return errors.New("no more connections")
			}
			return nil
		}
		h := startHarness(t, b, func(o *publish.Options) { o.Connections = 2 })
		start := time.Now()
		h.submit(t, "a", 1)
		h.finish(t)
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("took %v although a connection was left", took)
		}
	})
}

// TestOutageIsLoggedInSamples: an outage affects every lane, but must not log a line for
// each.
func TestOutageIsLoggedInSamples(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over := time.Now().Add(time.Minute)
		b := newBroker(func([]*event.Message) answer {
			if time.Now().Before(over) {
				return fails(publish.FaultTransient)
			}
			return ok(time.Millisecond)
		})
		var log bytes.Buffer
		h := newHarness(t, b, func(o *publish.Options) {
			o.Batching = publish.BatchingSession
			o.Logger = zerolog.New(zerolog.SyncWriter(&log))
		})
		for id := range int64(300) {
			h.submit(t, fmt.Sprint("aggregate-", id), 1)
		}
		h.start(t.Context())
		h.finish(t)
		if lines := strings.Count(log.String(), "sending fails repeatedly; retrying"); lines < 1 || lines > 10 {
			t.Errorf("%d lines in a minute, want a few of many", lines)
		}
	})
}

// TestUnreachableBrokerIsRetried: the dispatcher connects again until the broker answers.
func TestUnreachableBrokerIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		there := time.Now().Add(10 * time.Minute)
		b := newBroker(answers())
		b.connect = func(int) error {
			if time.Now().Before(there) {
				return errors.New("connection refused")
			}
			return nil
		}
		var log bytes.Buffer
		h := startHarness(t, b, func(o *publish.Options) {
			o.Connections = 4
			o.Logger = zerolog.New(zerolog.SyncWriter(&log)).Level(zerolog.InfoLevel)
		})
		h.submit(t, "a", 1)
		h.finish(t)
		if waited := time.Since(there); waited > 11*time.Second {
			t.Errorf("connected %v after the broker was there, want 10 s at most", waited)
		}
		if _, _, conns := b.count(); conns > 4*100 {
			t.Errorf("%d attempts in 10 minutes", conns)
		}
		if lines := strings.Count(log.String(), "no connection to the topic"); lines < 2 || lines > 9 {
			t.Errorf("%d lines, want fewer and fewer, whatever the number of connections", lines)
		}
	})
}

// TestThrottledNamespaceIsUsedFully sends a backlog to a namespace that grants credits
// per second, as the standard tier does. Most credits must be used, with few refusals.
func TestThrottledNamespaceIsUsedFully(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		policy    publish.Batching
		perSecond int
	}{
		{publish.BatchingMixed, 1000},
		{publish.BatchingMixed, 30},
		{publish.BatchingOff, 300},
	} {
		t.Run(fmt.Sprintf("%s at %d", test.policy, test.perSecond), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testThrottled(t, test.policy, test.perSecond) })
		})
	}
}

func testThrottled(t *testing.T, policy publish.Batching, perSecond int) {
	t.Helper()
	const minutes = 3
	start := time.Now()
	var second, credits, refused int
	b := newBroker(func(messages []*event.Message) answer {
		if now := int(time.Since(start) / time.Second); now != second {
			second, credits = now, 0
		}
		if credits >= perSecond {
			refused++
			a := fails(publish.FaultBusy)
			a.after = 4 * time.Millisecond
			return a
		}
		credits += len(messages)
		return ok(4 * time.Millisecond)
	})
	h := newHarness(t, b, func(o *publish.Options) { o.Batching = policy })
	ctx, cancel := context.WithTimeout(t.Context(), minutes*time.Minute)
	defer cancel()
	h.start(ctx)
	id := int64(1)
	for h.Submit(ctx, item(fmt.Sprintf("aggregate-%d", rand.IntN(1000)), id)) == nil {
		id++
	}
	if err := <-h.ran; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("run: %v", err)
	}
	topic, sends, _ := b.count()
	used := float64(topic) / float64(perSecond*minutes*60)
	t.Logf("%.0f %% of the credits used, %d of %d sends refused", 100*used, refused, sends)
	if used < 0.75 {
		t.Errorf("%.0f %% of the credits were used", 100*used)
	}
	if refused > sends/20+512 { // the first burst is what may be in flight
		t.Errorf("%d of %d sends were refused", refused, sends)
	}
}

// TestFailingKeyIsSentWhileTheNamespaceIsThrottled: a backlog of other keys must not keep a key that
// was refused from being sent again and quarantined.
func TestFailingKeyIsSentWhileTheNamespaceIsThrottled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var second, credits int
		b := newBroker(func(messages []*event.Message) answer {
			if slices.ContainsFunc(messages, func(m *event.Message) bool { return m.AggregateID == "refused" }) {
				return fails(publish.FaultRefused)
			}
			if now := int(time.Since(start) / time.Second); now != second {
				second, credits = now, 0
			}
			if credits >= 1000 {
				return fails(publish.FaultBusy)
			}
			credits += len(messages)
			return ok(4 * time.Millisecond)
		})
		h := newHarness(t, b, func(o *publish.Options) { o.Batching, o.MaxAttempts = publish.BatchingMixed, 3 })
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		h.start(ctx)
		for id := int64(1); ctx.Err() == nil; id++ {
			aggregate := fmt.Sprintf("aggregate-%d", id%1000)
			if id == 20_000 {
				aggregate = "refused"
			}
			_ = h.Submit(ctx, item(aggregate, id))
		}
		if err := <-h.ran; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("run: %v", err)
		}
		if len(h.quarantined) != 1 || h.quarantined[20_000] == nil {
			t.Errorf("the quarantine has %v, want the refused event", h.quarantined)
		}
	})
}

// TestRateLimitEndsAfterTheThrottling: the limit rises while it is used, until it is
// removed.
func TestRateLimitEndsAfterTheThrottling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(answers(ok(time.Millisecond), fails(publish.FaultBusy)))
		h := newHarness(t, b, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		h.start(ctx)
		for id := int64(1); h.Submit(ctx, item(fmt.Sprintf("aggregate-%d", id%100), id)) == nil; id++ {
			if id%2 == 0 {
				<-time.After(time.Millisecond)
			}
		}
		if err := <-h.ran; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("run: %v", err)
		}
		sends := b.seen()
		events := 0
		for _, s := range sends {
			if at := s.at.Sub(sends[0].at); at > 40*time.Second && at <= 41*time.Second {
				events += s.events
			}
		}
		if events < 1_800 {
			t.Errorf("%d events in a second, 40 s after the throttling, want the 2,000 that came in", events)
		}
	})
}
