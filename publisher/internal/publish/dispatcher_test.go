package publish_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

func TestSubmitBlocksAtTheBounds(t *testing.T) {
	t.Parallel()
	for name, bound := range map[string]func(*publish.Options){
		"events": func(o *publish.Options) { o.MaxInflightEvents = 3 },
		"bytes":  func(o *publish.Options) { o.MaxInflightBytes = 399 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, newBroker(answers(ok(time.Second))), bound)
				h.start(t.Context())
				start := time.Now()
				for id := range int64(3) {
					h.submit(t, "a", id+1)
				}
				if time.Since(start) != 0 {
					t.Error("Submit blocks below the bound")
				}

				gaveUp := errors.New("gave up")
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, gaveUp)
				defer cancel()
				if err := h.Submit(ctx, item("a", 4)); !errors.Is(err, gaveUp) {
					t.Errorf("Submit at the bound gives %v, want the context's cause", err)
				}
				h.submit(t, "a", 4)
				if waited := time.Since(start); waited != time.Second {
					t.Errorf("Submit returned after %v, want the first acknowledgement's second", waited)
				}
				h.finish(t)
				if h.ackedEvents() != 4 {
					t.Errorf("%d events acknowledged, want 4", h.ackedEvents())
				}
			})
		})
	}
}

func TestEventAboveTheBoundPassesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, newBroker(answers()), func(o *publish.Options) { o.MaxInflightBytes = 10 })
		h.start(t.Context())
		for id := range int64(5) {
			h.submit(t, "a", id+1)
			if events, bytes := h.Inflight(); events != 1 || bytes != 100 {
				t.Errorf("%d events of %d bytes in flight, want 1 of 100", events, bytes)
			}
		}
		h.finish(t)
	})
}

// TestQueuedEventsLeaveAsTheNextBatch: what arrives behind an unacknowledged send
// of its key is coalesced.
func TestQueuedEventsLeaveAsTheNextBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(func([]*event.Message) answer { return ok(time.Second) })
		h := newHarness(t, b, func(o *publish.Options) { o.Batching = publish.BatchingSession })
		h.start(t.Context())
		h.submit(t, "a", 1)
		synctest.Wait()
		for id := range int64(99) {
			h.submit(t, "a", id+2)
		}
		h.finish(t)
		sends := b.seen()
		if len(sends) != 2 || sends[0].events != 1 || sends[1].events != 99 {
			t.Errorf("sends are %+v, want 1 event and then 99", sends)
		}
	})
}

func TestBatchesByPolicy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		policy publish.Batching
		sends  int // for 10 keys with 3 events each that were queued before Run
	}{
		{publish.BatchingAuto, 1},
		{publish.BatchingMixed, 1},
		{publish.BatchingSession, 10},
		{publish.BatchingOff, 30},
	} {
		t.Run(string(test.policy), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBroker(func([]*event.Message) answer { return ok(time.Second) })
				h := newHarness(t, b, func(o *publish.Options) { o.Batching = test.policy })
				start := time.Now()
				for id := range int64(30) {
					h.submit(t, fmt.Sprint("aggregate-", id%10), id/10+1)
				}
				h.start(t.Context())
				h.finish(t)
				if _, sends, _ := b.count(); sends != test.sends {
					t.Errorf("%d sends, want %d", sends, test.sends)
				}
				// Different keys go in parallel, one key's sends one after another.
				if took := time.Since(start); took > 3*time.Second {
					t.Errorf("took %v, want 3 s at most", took)
				}
				if err := checkOrder(b.stored(), nothing); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestRefusedBatchesDegradeThePolicyOnce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fault    publish.Fault
		degraded float64
		keys     int // in any send after the refusals
		events   bool
	}{
		{publish.FaultRefused, 1, 1, true},
		{publish.FaultBatch, 1, 1, false},
	} {
		t.Run(test.fault.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBroker(func(messages []*event.Message) answer {
					for _, m := range messages {
						if m.SessionKey != messages[0].SessionKey || test.fault == publish.FaultBatch && len(messages) > 1 {
							return fails(test.fault)
						}
					}
					return ok(time.Millisecond)
				})
				registry := prometheus.NewRegistry()
				h := newHarness(t, b, func(o *publish.Options) {
					o.Registerer = registry
					o.MaxBatchEvents = 20
				})
				for id := range int64(300) {
					h.submit(t, fmt.Sprint("aggregate-", id%30), id/30+1)
				}
				h.start(t.Context())
				h.finish(t)
				if err := testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(`
# HELP penstock_publisher_batching_degraded_total Times that the topic refused batches of the policy in force.
# TYPE penstock_publisher_batching_degraded_total counter
penstock_publisher_batching_degraded_total %v
`, test.degraded)), "penstock_publisher_batching_degraded_total"); err != nil {
					t.Error(err)
				}
				if topic, _, _ := b.count(); topic != 300 {
					t.Errorf("%d events on the topic, want each of 300 once", topic)
				}
				batches := false
				for _, s := range b.seen() {
					batches = batches || s.answer.fault == nil && s.events > 1
				}
				if batches != test.events {
					t.Errorf("batches of one key: %v, want %v", batches, test.events)
				}
			})
		})
	}
}

func TestRefusedEventEndsTheTerm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, newBroker(answers(fails(publish.FaultRefused))), nil)
		h.start(t.Context())
		h.submit(t, "a", 1)
		if err := <-h.ran; err == nil || !strings.Contains(err.Error(), "a/1") {
			t.Errorf("run gives %v, want the event's name", err)
		}
	})
}

// TestTooLargeBatchIsHalved where the link did not say so beforehand.
func TestTooLargeBatchIsHalved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(func(messages []*event.Message) answer {
			if len(messages) > 10 {
				return fails(publish.FaultTooLarge)
			}
			return ok(time.Millisecond)
		})
		h := newHarness(t, b, nil)
		for id := range int64(1000) {
			h.submit(t, fmt.Sprint("aggregate-", id%7), id/7+1)
		}
		h.start(t.Context())
		h.finish(t)
		topic, sends, _ := b.count()
		if topic != 1000 || sends > 250 {
			t.Errorf("%d events on the topic in %d sends, want 1000 in little more than 100", topic, sends)
		}
		if err := checkOrder(b.stored(), nothing); err != nil {
			t.Error(err)
		}
	})
}

// TestBatchesAreTakenAsLargeAsFits so that little is encoded and cut again, once
// the first batches have taught what fits.
func TestBatchesAreTakenAsLargeAsFits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const learning = 50
		sends, cut, sent := 0, 0, 0
		b := newBroker(func(messages []*event.Message) answer {
			if sends++; sends > learning {
				cut += max(0, len(messages)-100)
				sent += min(len(messages), 100)
			}
			return answer{after: time.Millisecond, fits: 100}
		})
		h := newHarness(t, b, nil)
		h.start(t.Context())
		for id := range int64(50_000) {
			h.submit(t, fmt.Sprint("aggregate-", id%1000), id/1000+1)
		}
		h.finish(t)
		if cut > sent/20 {
			t.Errorf("%d events were cut off batches of %d", cut, sent)
		}
		if mean := sent / (sends - learning); mean < 80 {
			t.Errorf("%d events in the mean batch, want nearly 100", mean)
		}
	})
}

func TestEventThatIsTooLarge(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name             string
		claimCheck, fits bool // the option; and whether claim checks fit
		reason           event.Reason
	}{
		{"becomes a claim check", true, true, ""},
		{"is quarantined where its claim check is too large as well", true, false, event.ReasonTooLarge},
		{"is quarantined without claim checks", false, true, event.ReasonTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBroker(func(messages []*event.Message) answer {
					for i, m := range messages {
						if m.EventID == 50 && (!m.ClaimCheck || !test.fits) {
							if i > 0 {
								return answer{fits: i}
							}
							a := fails(publish.FaultTooLarge)
							a.fault.First = true
							return a
						}
					}
					return ok(0)
				})
				h := newHarness(t, b, func(o *publish.Options) { o.ClaimCheck = test.claimCheck })
				for id := range int64(100) {
					h.submit(t, "a", id+1)
				}
				h.start(t.Context())
				h.finish(t)
				if h.ackedEvents() != 100 {
					t.Errorf("%d events are acknowledged, want all 100", h.ackedEvents())
				}
				var contract *event.ContractError
				if errors.As(h.quarantined[50], &contract) != (test.reason != "") || contract != nil && contract.Reason != test.reason {
					t.Errorf("quarantined for %v, want %q", h.quarantined[50], test.reason)
				}
				skipped := func(_ string, id int64) bool { return test.reason != "" && id == 50 }
				if err := checkOrder(b.stored(), skipped); err != nil {
					t.Error(err)
				}
				for _, m := range b.stored() {
					if m.ClaimCheck != (m.EventID == 50) {
						t.Errorf("claim check of %s: %v", m.MessageID, m.ClaimCheck)
					}
				}
			})
		})
	}
}

// TestStubbornEventHoldsUpItsKeyOnly: a batch that keeps failing is halved until
// the event is alone with its key.
func TestStubbornEventHoldsUpItsKeyOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(func(messages []*event.Message) answer {
			for _, m := range messages {
				if m.SessionKey == "stubborn" {
					return fails(publish.FaultTransient)
				}
			}
			return ok(time.Millisecond)
		})
		h := newHarness(t, b, nil)
		for id := range int64(100) {
			h.submit(t, fmt.Sprint("aggregate-", id), id+1)
			if id == 30 {
				h.submit(t, "stubborn", 1000)
			}
		}
		ended := errors.New("the term ends")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, ended)
		defer cancel()
		h.start(ctx)
		if err := <-h.ran; !errors.Is(err, ended) {
			t.Errorf("run gives %v", err)
		}
		if h.ackedEvents() != 100 {
			t.Errorf("%d of the 100 neighbours are acknowledged after a minute", h.ackedEvents())
		}
	})
}

func TestWhatEndsATerm(t *testing.T) {
	t.Parallel()
	ordered := errors.New("ordered by the test")
	fatal := &publish.SendError{Fault: publish.FaultFatal, Err: ordered}
	for name, change := range map[string]func(*publish.Options, *broker){
		"a fatal send": func(_ *publish.Options, b *broker) { b.answer = answers(answer{fault: fatal}) },
		"a fatal connect": func(_ *publish.Options, b *broker) {
			b.connect = func(n int) error {
				if n == 3 {
					return fatal
				}
				return nil
			}
			b.answer = answers(ok(time.Hour))
		},
		"a quarantine that fails": func(o *publish.Options, b *broker) {
			b.answer = answers(fails(publish.FaultTooLarge))
			o.Quarantine = func(context.Context, *publish.Item, error) error { return ordered }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBroker(nil)
				h := newHarness(t, b, func(o *publish.Options) { change(o, b) })
				h.start(t.Context())
				if err := h.Submit(t.Context(), item("a", 1)); err != nil && !errors.Is(err, publish.ErrClosed) {
					t.Errorf("submit: %v", err)
				}
				if err := <-h.ran; !errors.Is(err, ordered) {
					t.Errorf("run gives %v, want the fault", err)
				}
				for what, err := range map[string]error{
					"Submit": h.Submit(t.Context(), item("a", 2)),
					"Drain":  h.Drain(t.Context()),
				} {
					if !errors.Is(err, publish.ErrClosed) || !errors.Is(err, ordered) {
						t.Errorf("%s afterwards gives %v, want ErrClosed and the fault", what, err)
					}
				}
				if h.ackedEvents() != 0 {
					t.Error("the event was acknowledged")
				}
				if b.open != 0 {
					t.Errorf("%d connections are left open", b.open)
				}
			})
		})
	}
}

// TestForeignSessionKeyEndsTheTerm: with other keys in the messages than in the
// lanes, order would be lost in silence.
func TestForeignSessionKeyEndsTheTerm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, newBroker(answers()), func(o *publish.Options) {
			o.SessionKey = func(string) string { return "another" }
		})
		h.start(t.Context())
		h.submit(t, "a", 1)
		if err := <-h.ran; err == nil {
			t.Error("run went well")
		}
	})
}

func TestEndOfTheContextDropsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(func([]*event.Message) answer { return ok(time.Hour) })
		registry := prometheus.NewRegistry()
		h := newHarness(t, b, func(o *publish.Options) {
			o.Registerer = registry
			o.MaxInflightEvents = 10
		})
		ended := errors.New("the lease is lost")
		ctx, cancel := context.WithCancelCause(t.Context())
		h.start(ctx)
		for id := range int64(10) {
			h.submit(t, fmt.Sprint("aggregate-", id), 1)
		}
		blocked := make(chan error, 1)
		go func() { blocked <- h.Submit(context.WithoutCancel(ctx), item("b", 1)) }()
		synctest.Wait()
		cancel(ended)
		if err := <-h.ran; !errors.Is(err, ended) {
			t.Errorf("run gives %v, want the cause", err)
		}
		if err := <-blocked; !errors.Is(err, publish.ErrClosed) || !errors.Is(err, ended) {
			t.Errorf("a blocked Submit gives %v, want ErrClosed and the cause", err)
		}
		if h.ackedEvents() != 0 {
			t.Errorf("%d events are acknowledged", h.ackedEvents())
		}
		if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP penstock_publisher_inflight_events Events between the stream and their acknowledgement.
# TYPE penstock_publisher_inflight_events gauge
penstock_publisher_inflight_events 0
# HELP penstock_publisher_inflight_bytes Size of the events between the stream and their acknowledgement.
# TYPE penstock_publisher_inflight_bytes gauge
penstock_publisher_inflight_bytes 0
`), "penstock_publisher_inflight_events", "penstock_publisher_inflight_bytes"); err != nil {
			t.Error(err)
		}
	})
}

func TestDrainGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, newBroker(answers(ok(10*time.Second))), nil)
		h.start(t.Context())
		h.submit(t, "a", 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drain gives %v, want the deadline", err)
		}
		if err := h.Submit(t.Context(), item("a", 2)); !errors.Is(err, publish.ErrClosed) {
			t.Errorf("Submit while draining gives %v, want ErrClosed", err)
		}
		h.finish(t)
		if h.ackedEvents() != 1 {
			t.Error("the event was not acknowledged in the end")
		}
	})
}

func TestOptionsAreCheckedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := publish.New(publish.Options{Batching: "some", Connections: -1, MaxBatchEvents: 5000})
	if err == nil {
		t.Fatal("New went well")
	}
	for _, want := range []string{"Connect", "Encoder", "SessionKey", "Acked", "Quarantine", `"some"`, "no connections", "4500"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// TestTermsShareTheirMetrics: each term has its own dispatcher, the process one
// set of metrics.
func TestTermsShareTheirMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, newBroker(answers()), func(o *publish.Options) { o.Registerer = registry })
			h.start(t.Context())
			h.submit(t, "a", 1)
			h.finish(t)
		})
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP penstock_publisher_events_published_total Events that left the stream: published whole or as a claim check, or quarantined as unpublishable.
# TYPE penstock_publisher_events_published_total counter
penstock_publisher_events_published_total{result="claim_check"} 0
penstock_publisher_events_published_total{result="published"} 3
penstock_publisher_events_published_total{result="quarantined"} 0
# HELP penstock_publisher_connections Connections to the topic that are open.
# TYPE penstock_publisher_connections gauge
penstock_publisher_connections 0
`), "penstock_publisher_events_published_total", "penstock_publisher_connections"); err != nil {
		t.Error(err)
	}
}

func TestAutoBatchingByTheTopic(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		policy publish.Batching
		topic  *publish.TopicProperties
		want   publish.Batching
	}{
		{publish.BatchingAuto, nil, publish.BatchingMixed},
		{publish.BatchingAuto, &publish.TopicProperties{}, publish.BatchingMixed},
		{publish.BatchingAuto, &publish.TopicProperties{DuplicateDetection: true}, publish.BatchingMixed},
		{publish.BatchingAuto, &publish.TopicProperties{Partitioned: true}, publish.BatchingSession},
		{publish.BatchingAuto, &publish.TopicProperties{Partitioned: true, DuplicateDetection: true}, publish.BatchingOff},
		{publish.BatchingSession, &publish.TopicProperties{}, publish.BatchingSession},
	} {
		if got := test.policy.Resolve(test.topic); got != test.want {
			t.Errorf("%s for %+v is %s, want %s", test.policy, test.topic, got, test.want)
		}
	}
	if _, err := publish.ParseBatching("none"); err == nil {
		t.Error("an unknown policy was read")
	}
}
