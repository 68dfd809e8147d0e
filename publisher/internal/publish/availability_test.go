package publish_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

var errNotFound = &publish.SendError{Fault: publish.FaultFatal, Broken: true, Err: errors.New("amqp:not-found")}

// failover is a topic that answers every request with not-found during an interval.
func failover(from, to time.Time) *broker {
	gone := func() bool { return !time.Now().Before(from) && time.Now().Before(to) }
	b := newBroker(func([]*event.Message) answer {
		if gone() {
			return answer{fault: errNotFound}
		}
		return ok(time.Millisecond)
	})
	b.connect = func(int) error {
		if gone() {
			return errNotFound
		}
		return nil
	}
	return b
}

// TestFailoverDoesNotEndTheTerm: a namespace that fails over answers not-found on every
// connection for a while.
func TestFailoverDoesNotEndTheTerm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b := failover(start.Add(time.Minute), start.Add(9*time.Minute))
		var log bytes.Buffer
		registry := prometheus.NewRegistry()
		availability := publish.NewAvailability(publish.AvailabilityOptions{
			FatalAfter: 10 * time.Minute,
			Explain:    func(err error) error { return errors.Join(err, errors.New("create the topic")) },
			Registerer: registry,
			Logger:     zerolog.New(zerolog.SyncWriter(&log)),
		})
		refused := func() float64 { return testkit.Metric(t, registry, "penstock_publisher_topic_refused") }
		h := startHarness(t, b, func(o *publish.Options) { o.Availability = availability })
		for id := range int64(600) {
			h.submit(t, "a", id+1)
			if id == 180 {
				if err := availability.Err(); err == nil || !strings.Contains(err.Error(), "create the topic") {
					t.Errorf("ready while the topic refuses: %v, want not ready, with the remedy", err)
				}
				if refused() != 1 {
					t.Error("the metric does not show that the topic refuses")
				}
			}
			<-time.After(time.Second)
		}
		h.finish(t)
		if topic, _, conns := b.count(); topic != 600 || conns > 300 {
			t.Errorf("%d of 600 events on the topic, over %d connections", topic, conns)
		}
		if err := availability.Err(); err != nil || refused() != 0 {
			t.Errorf("not ready after the failover: %v", err)
		}
		if len(h.quarantined) > 0 {
			t.Errorf("quarantined: %v", h.quarantined)
		}
		for line, want := range map[string]int{"topic refuses this publisher; retrying": 1, "topic accepts this publisher again": 1} {
			if got := strings.Count(log.String(), line); got != want {
				t.Errorf("%d log lines %q, want %d", got, line, want)
			}
		}
	})
}

// TestLastingRefusalEndsTheTerm checks that a refusal that lasts for the configured time
// ends the term, for connects and for sends.
func TestLastingRefusalEndsTheTerm(t *testing.T) {
	t.Parallel()
	for name, connects := range map[string]bool{"connecting": false, "sending": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				b := failover(start.Add(time.Minute), start.Add(time.Hour))
				if connects {
					b.connect = nil
				}
				h := startHarness(t, b, func(o *publish.Options) {
					o.Availability = publish.NewAvailability(publish.AvailabilityOptions{FatalAfter: 10 * time.Minute})
				})
				for id := int64(1); h.Submit(t.Context(), item("a", id)) == nil; id++ {
					<-time.After(time.Second)
				}
				if err := <-h.ran; !errors.Is(err, errNotFound) {
					t.Errorf("run gives %v, want the refusal", err)
				}
				if lasted := time.Since(start); lasted < 11*time.Minute || lasted > 12*time.Minute {
					t.Errorf("the term ended after %v, want 11 min and a little", lasted)
				}
			})
		})
	}
}

// TestRefusalAtTheStartEndsTheTermAtOnce checks a topic that has never accepted anything:
// its name is wrong.
func TestRefusalAtTheStartEndsTheTermAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		h := startHarness(t, failover(start, start.Add(time.Hour)), func(o *publish.Options) {
			o.Availability = publish.NewAvailability(publish.AvailabilityOptions{FatalAfter: 10 * time.Minute})
		})
		if err := <-h.ran; !errors.Is(err, errNotFound) || time.Since(start) > time.Second {
			t.Errorf("run gives %v after %v, want the refusal at once", err, time.Since(start))
		}
	})
}

// TestRefusalsWithPausesBetweenThemDoNotAddUp checks that only an uninterrupted refusal
// counts, not refusals with a success between them.
func TestRefusalsWithPausesBetweenThemDoNotAddUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		availability := publish.NewAvailability(publish.AvailabilityOptions{FatalAfter: 10 * time.Minute})
		availability.Connected()
		for range 10 {
			if err := availability.ConnectRefused(errNotFound); err != nil {
				t.Fatalf("the first refusal after a connection ends the term: %v", err)
			}
			<-time.After(time.Minute)
			availability.Connected()
			<-time.After(time.Hour)
			if err := availability.Err(); err != nil {
				t.Fatalf("not ready an hour after a connection: %v", err)
			}
		}
	})
}

// TestRefusalEndsIfTheProcessPublishesNoMore: another process leads.
func TestRefusalEndsIfTheProcessPublishesNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		availability := publish.NewAvailability(publish.AvailabilityOptions{FatalAfter: 10 * time.Minute})
		availability.Connected()
		for range 3 {
			if err := availability.Refused(errNotFound); err != nil {
				t.Fatalf("a refusal of an earlier term ends a later one: %v", err)
			}
			availability.TermEnded()
			<-time.After(time.Hour)
		}
		if err := availability.Err(); err != nil {
			t.Errorf("not ready an hour after the last term: %v", err)
		}
	})
}

// TestTermsShareTheAvailability checks that a new term does not restart the time of a
// refusal.
func TestTermsShareTheAvailability(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b := failover(start.Add(time.Minute), start.Add(time.Hour))
		availability := publish.NewAvailability(publish.AvailabilityOptions{FatalAfter: 10 * time.Minute})
		ended := errors.New("the lease is lost")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 6*time.Minute, ended)
		defer cancel()
		term := func(ctx context.Context, want error) {
			h := newHarness(t, b, func(o *publish.Options) { o.Availability = availability })
			h.start(ctx)
			for id := int64(1); h.Submit(ctx, item("a", id)) == nil; id++ {
				<-time.After(time.Second)
			}
			h.ended(t, want)
		}
		term(ctx, ended)
		term(t.Context(), errNotFound)
		if lasted := time.Since(start); lasted < 11*time.Minute || lasted > 12*time.Minute {
			t.Errorf("the second term ended after %v, want 11 min and a little", lasted)
		}
	})
}
