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
				h := startHarness(t, newBroker(answers(ok(time.Second))), bound)
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

func TestEventLargerThanTheBoundIsSentAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := startHarness(t, newBroker(answers()), func(o *publish.Options) { o.MaxInflightBytes = 10 })
		for id := range int64(5) {
			h.submit(t, "a", id+1)
			if events, bytes := h.Inflight(); events != 1 || bytes != 100 {
				t.Errorf("%d events of %d bytes in flight, want 1 of 100", events, bytes)
			}
		}
		h.finish(t)
	})
}

// TestQueuedEventsLeaveAsTheNextBatch checks that events that arrive during an
// unacknowledged send of their key are sent together.
func TestQueuedEventsLeaveAsTheNextBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(func([]*event.Message) answer { return ok(time.Second) })
		h := startHarness(t, b, func(o *publish.Options) { o.Batching = publish.BatchingSession })
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

func TestFatalErrorsEndTheTerm(t *testing.T) {
	t.Parallel()
	ordered := errors.New("ordered by the test")
	fatal := &publish.SendError{Fault: publish.FaultFatal, Err: ordered}
	for name, change := range map[string]func(*publish.Options, *broker){
		"a fatal send": func(_ *publish.Options, b *broker) { b.answer = answers(answer{fault: fatal}) },
		"a fatal send on every connection": func(_ *publish.Options, b *broker) {
			broken := &publish.SendError{Fault: publish.FaultFatal, Broken: true, Err: ordered}
			b.answer = func([]*event.Message) answer { return answer{fault: broken} }
		},
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
				h := startHarness(t, b, func(o *publish.Options) {
					o.Availability = nil // a refusal ends the term at once
					change(o, b)
				})
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

func TestEndOfTheContextDropsEventsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(func([]*event.Message) answer { return ok(time.Hour) })
		registry := prometheus.NewRegistry()
		h := newHarness(t, b, func(o *publish.Options) {
			o.Metrics = publish.NewMetrics(registry)
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
		inflightIs(t, registry, 10)
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
		inflightIs(t, registry, 0)
	})
}

// inflightIs compares the metrics of the events in flight with a number of events of the
// same size.
func inflightIs(t *testing.T, registry prometheus.Gatherer, events int) {
	t.Helper()
	if err := testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(`
# HELP penstock_publisher_inflight_events Events that were read and that the broker has not acknowledged yet.
# TYPE penstock_publisher_inflight_events gauge
penstock_publisher_inflight_events %d
# HELP penstock_publisher_inflight_bytes Size of the events that were read and that the broker has not acknowledged yet.
# TYPE penstock_publisher_inflight_bytes gauge
penstock_publisher_inflight_bytes %d
`, events, events*len(item("a", 1).Event.Document))), "penstock_publisher_inflight_events", "penstock_publisher_inflight_bytes"); err != nil {
		t.Error(err)
	}
}

func TestDrainGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := startHarness(t, newBroker(answers(ok(10*time.Second))), nil)
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

// TestTermsShareTheirMetrics checks that the dispatchers of several terms use one set of
// metrics.
func TestTermsShareTheirMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics := publish.NewMetrics(registry)
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			h := startHarness(t, newBroker(answers()), func(o *publish.Options) { o.Metrics = metrics })
			h.submit(t, "a", 1)
			h.finish(t)
		})
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP penstock_publisher_events_published_total Events that the publisher tried to send and completed, by result: published, claim_check (published without the payload, because the event is too large) or quarantined, because the event could not be sent. An event that is quarantined when it is read does not count here: see penstock_publisher_quarantined_total.
# TYPE penstock_publisher_events_published_total counter
penstock_publisher_events_published_total{result="claim_check"} 0
penstock_publisher_events_published_total{result="published"} 3
penstock_publisher_events_published_total{result="quarantined"} 0
# HELP penstock_publisher_connections Open connections to the topic.
# TYPE penstock_publisher_connections gauge
penstock_publisher_connections 0
# HELP penstock_publisher_send_errors_total Sends that failed, by fault: disconnected (the connection was lost), transient, busy (the namespace is throttled, or a part of the topic is), too_large (the messages exceed the limit of the topic), refused (the topic refuses these messages), mixed_refused (no batch of several session keys), batch_refused (no batch at all) or fatal (an operator must act).
# TYPE penstock_publisher_send_errors_total counter
penstock_publisher_send_errors_total{fault="batch_refused"} 0
penstock_publisher_send_errors_total{fault="busy"} 0
penstock_publisher_send_errors_total{fault="disconnected"} 0
penstock_publisher_send_errors_total{fault="fatal"} 0
penstock_publisher_send_errors_total{fault="mixed_refused"} 0
penstock_publisher_send_errors_total{fault="refused"} 0
penstock_publisher_send_errors_total{fault="too_large"} 0
penstock_publisher_send_errors_total{fault="transient"} 0
`), "penstock_publisher_events_published_total", "penstock_publisher_connections", "penstock_publisher_send_errors_total"); err != nil {
		t.Error(err)
	}
}
