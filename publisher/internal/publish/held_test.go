package publish_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/breaker"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// TestTooManyRefusedEventsWait: if a topic refuses a large part of the events, the topic is at
// fault. The events wait until it is corrected, and the keys that it accepts go on.
func TestTooManyRefusedEventsWait(t *testing.T) {
	t.Parallel()
	const events = 36_000
	for _, test := range []struct{ keys, bad, max int64 }{
		{keys: 300, bad: 100, max: 50},
		// The few keys that wait are a small part of the recent events, so some of their events
		// go to the quarantine: at most the share of all events.
		{keys: 30, bad: 10, max: events / 20},
	} {
		t.Run(fmt.Sprint(test.keys), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				corrected := false
				b := newBroker(refusing(fails(publish.FaultRefused), func(m *event.Message) bool { return !corrected && isBad(m) }))
				metrics := publish.NewMetrics(nil)
				h := startHarness(t, b, func(o *publish.Options) {
					o.Load, o.Metrics, o.MaxInflightEvents = new(reloads).load, metrics, 1000
				})
				good := 0
				for i := range int64(events) {
					key, id := fmt.Sprint("good-", i%test.keys), 1+i/test.keys
					if i%test.keys < test.bad {
						key = "bad-" + key
					} else {
						good++
					}
					it := item(key, id)
					it.Ticket = uint64(i)
					if err := h.Submit(t.Context(), it); err != nil {
						t.Fatal(err)
					}
					<-time.After(time.Hour / events)
				}
				quarantined := len(h.quarantined)
				if quarantined > int(test.max) {
					t.Errorf("%d events are in the quarantine, want %d at most", quarantined, test.max)
				}
				if n := len(b.stored()); n < good-1 {
					t.Errorf("%d of %d events of the keys that the topic accepts are on the topic", n, good)
				}
				delayed := metrics.Delayed()
				if delayed.Keys < int(test.bad)-1 || !errors.Is(delayed.Err, publish.ErrRefusals) || !strings.Contains(delayed.Err.Error(), "ordered by the test") ||
					!strings.Contains(delayed.Err.Error(), "correct the topic's settings, or raise PENSTOCK_QUARANTINE_SHARE") {
					t.Errorf("delayed: %+v", delayed)
				}

				corrected = true
				begun := time.Now()
				for h.pending() {
					<-time.After(100 * time.Millisecond)
					if time.Since(begun) > 5*time.Second {
						t.Fatal("events wait 5 s after the correction")
					}
				}
				h.finish(t)
				if n := len(b.stored()); n != events-len(h.quarantined) || len(h.quarantined) != quarantined {
					t.Errorf("%d of %d events are on the topic, %d in the quarantine, %d of them before the correction", n, events, len(h.quarantined), quarantined)
				}
				if err := checkOrder(b.stored(), func(key string, id int64) bool {
					number, _ := strconv.ParseInt(key[strings.LastIndex(key, "-")+1:], 10, 64)
					return h.quarantined[uint64((id-1)*test.keys+number)] != nil
				}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestHigherShareSetsWaitingEventsAside: an operator who knows that the events are wrong allows
// them into the quarantine, and their keys go on.
func TestHigherShareSetsWaitingEventsAside(t *testing.T) {
	t.Parallel()
	for share, want := range map[float64]int{0.05: 10, 1: 200} {
		synctest.Test(t, func(t *testing.T) {
			b := newBroker(refusing(fails(publish.FaultRefused), func(m *event.Message) bool { return isBad(m) && m.EventID == 1 }))
			h := startHarness(t, b, func(o *publish.Options) {
				o.Breaker = breaker.New(breaker.Limit{Window: 1000, Share: share, Minimum: 10})
			})
			submit := func(key string, id int64) { h.submitNext(t.Context(), t, key, id) }
			for key := range 200 {
				submit(fmt.Sprint("bad-", key), 1)
				submit(fmt.Sprint("bad-", key), 2)
			}
			for id := range int64(150) {
				submit("good", id+1)
				<-time.After(4 * time.Second)
			}
			if len(h.quarantined) != want || len(b.stored()) < 149+want {
				t.Errorf("share %v: %d events are in the quarantine, want %d, and %d on the topic", share, len(h.quarantined), want, len(b.stored()))
			}
			if share == 1 {
				h.finish(t)
			}
		})
	}
}

// TestFewRefusedEventsThatWaitAreQuarantined: the events that follow show that the topic works.
func TestFewRefusedEventsThatWaitAreQuarantined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(refusing(fails(publish.FaultRefused), isBad))
		h := startHarness(t, b, nil)
		for key := range int64(15) {
			h.submit(t, fmt.Sprint("bad-", key), 1_000_000+key)
		}
		for id := range int64(1000) {
			h.submit(t, "good", id+1)
			<-time.After(100 * time.Millisecond)
		}
		h.finish(t)
		if len(h.quarantined) != 15 {
			t.Errorf("%d events are in the quarantine, want 15", len(h.quarantined))
		}
	})
}

// TestRefusalEndsWithTheOnlyRefusedEvent: the topic seems to refuse everything while no other
// event comes. When the event is in the quarantine, nothing waits.
func TestRefusalEndsWithTheOnlyRefusedEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(refusing(fails(publish.FaultRefused), isBad))
		availability := publish.NewAvailability(publish.AvailabilityOptions{FatalAfter: time.Hour})
		h := startHarness(t, b, func(o *publish.Options) { o.Availability = availability })
		h.submit(t, "bad-1", 1_000_000)
		refused := false
		for began := time.Now(); h.pending(); {
			<-time.After(time.Second)
			refused = refused || availability.Err() != nil
			if time.Since(began) > time.Hour {
				t.Fatal("the event is not in the quarantine")
			}
		}
		if err := availability.Err(); !refused || err != nil || len(h.quarantined) != 1 {
			t.Errorf("refused %t, then %v; %d events are in the quarantine", refused, err, len(h.quarantined))
		}
		h.finish(t)
	})
}

// TestManyLostEventsWait: the checkpoint must not pass so many events that the event store seems
// not to have. As soon as it has them again, they are published.
func TestManyLostEventsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var restored atomic.Bool
		h, blocking, metrics := blockedKey(t, func(ctx context.Context, refs []publish.Ref) ([]publish.Loaded, error) {
			if restored.Load() {
				return new(reloads).load(ctx, refs)
			}
			loaded := make([]publish.Loaded, len(refs))
			for i := range loaded {
				loaded[i].Err = &event.ContractError{Reason: event.ReasonLost, Detail: "gone"}
			}
			return loaded, nil
		})
		blocking.Store(false)
		<-time.After(30 * time.Minute)
		lost := len(h.quarantined)
		if lost == 0 || lost > 50 {
			t.Errorf("%d events are in the quarantine", lost)
		}
		if delayed := metrics.Delayed(); delayed.Keys != 1 || delayed.Key != "bad-" || !errors.Is(delayed.Err, publish.ErrRefusals) ||
			!strings.Contains(delayed.Err.Error(), "restore the events") || time.Since(delayed.Since) < 25*time.Minute {
			t.Errorf("delayed: %+v", delayed)
		}
		restored.Store(true)
		for again := time.Now(); h.pending(); {
			<-time.After(time.Second)
			if time.Since(again) > 2*time.Minute {
				t.Fatal("events wait although the event store has them again")
			}
		}
		h.finish(t)
		if h.ackedEvents() != 1000 || len(h.quarantined) != lost {
			t.Errorf("%d events are acknowledged, %d in the quarantine", h.ackedEvents(), len(h.quarantined))
		}
		if err := checkOrder(h.broker.stored(), func(_ string, id int64) bool { return h.quarantined[uint64(id)] != nil }); err != nil {
			t.Error(err)
		}
	})
}
