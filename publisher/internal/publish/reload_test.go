package publish_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// TestSpilledEventsThatAreGoneAreQuarantined deletes events while they wait.
func TestSpilledEventsThatAreGoneAreQuarantined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const events = 100
		var blocking atomic.Bool
		blocking.Store(true)
		b := newBroker(refusing(fails(publish.FaultTransient), func(m *event.Message) bool { return blocking.Load() && isBad(m) }))
		store := &reloads{}
		h := startHarness(t, b, func(o *publish.Options) {
			o.MaxInflightEvents = 10
			o.Load = func(ctx context.Context, refs []publish.Ref) ([]publish.Loaded, error) {
				found, err := store.load(ctx, refs)
				for i := range found {
					if refs[i].EventID == events/2 {
						found[i] = publish.Loaded{Err: &event.ContractError{Reason: event.ReasonLost}}
					}
				}
				return found, err
			}
		})
		for id := range int64(events) {
			h.submit(t, "bad-", id+1)
			other := item("good", id+1)
			other.Ticket = uint64(1000 + id)
			if err := h.Submit(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
		blocking.Store(false)
		for h.pending() {
			<-time.After(time.Second)
		}
		h.finish(t)
		if len(h.quarantined) != 1 || !strings.Contains(fmt.Sprint(h.quarantined[events/2]), string(event.ReasonLost)) {
			t.Errorf("quarantined %v, want event %d as lost", h.quarantined, events/2)
		}
		if err := checkOrder(b.stored(), func(aggregate string, id int64) bool { return aggregate == "bad-" && id == events/2 }); err != nil {
			t.Error(err)
		}
	})
}

// TestHungKeysLeaveTheMemoryToOthers lets twelve keys hang whose events were dropped from
// memory behind a send. A key that the topic accepts, and that has more events than fit into
// memory, must go on.
func TestHungKeysLeaveTheMemoryToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const inflight, bad, each = 128, 12, 60
		var hanging atomic.Bool
		hanging.Store(true)
		b := newBroker(func(messages []*event.Message) answer {
			if hanging.Load() && isBad(messages[0]) {
				return ok(time.Hour)
			}
			return ok(100 * time.Millisecond)
		})
		h := startHarness(t, b, func(o *publish.Options) {
			o.Batching, o.MaxInflightEvents, o.MaxBatchEvents, o.Load = publish.BatchingSession, inflight, 2, (&reloads{}).load
		})
		submit := func(key string, id int64) { h.submitNext(t.Context(), t, key, id) }
		for id := range int64(each) {
			for key := range bad {
				submit(fmt.Sprint("bad-", key), id+1)
			}
		}
		<-time.After(2 * time.Minute)
		for id := range int64(2 * inflight) { // in a burst, so most of them leave memory
			submit("large", id+1)
			submit(fmt.Sprint("good-", id), 1)
		}
		<-time.After(5 * time.Minute)
		events := 0
		for _, m := range b.stored() {
			if m.AggregateID == "large" {
				events++
			}
		}
		if events != 2*inflight {
			t.Errorf("%d of %d events of a key that the topic accepts are on the topic after five minutes", events, 2*inflight)
		}
		hanging.Store(false)
		h.finishAll(t, int(h.submitted))
	})
}

// TestFailingKeyReadsOnlyWhatItsNextSendCarries has a key that fails for an hour.
func TestFailingKeyReadsOnlyWhatItsNextSendCarries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const inflight, events = 128, 1000
		bad := fails(publish.FaultTransient)
		bad.after = 50 * time.Millisecond
		b := newBroker(refusing(bad, isBad))
		store := &reloads{}
		h := newHarness(t, b, func(o *publish.Options) {
			o.Batching, o.MaxInflightEvents, o.Load = publish.BatchingSession, inflight, store.load
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		h.start(ctx)
		for id := range int64(events) {
			it := item("bad-", id+1)
			it.Ticket = uint64(id)
			if err := h.Submit(ctx, it); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Minute)
		before, sends := store.count(), len(b.seen())
		h.feed(ctx, "good", time.Second)
		h.ended(t, context.DeadlineExceeded)
		attempts := 0
		for _, s := range b.seen()[sends:] {
			if s.answer.fault != nil {
				attempts++
			}
		}
		if read := store.count() - before; attempts == 0 || read > 2*attempts {
			t.Errorf("%d events were read for %d attempts to send one", read, attempts)
		}
	})
}

// TestOutageEndsQuicklyForManyKeys has one event of each of many keys behind an outage.
func TestOutageEndsQuicklyForManyKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const inflight, keys = 1024, 20_000
		var outage atomic.Bool
		outage.Store(true)
		b := newBroker(func([]*event.Message) answer {
			if outage.Load() {
				return fails(publish.FaultTransient)
			}
			return ok(5 * time.Millisecond)
		})
		h := startHarness(t, b, func(o *publish.Options) {
			o.Batching, o.MaxInflightEvents, o.Load = publish.BatchingMixed, inflight, (&reloads{after: 10 * time.Millisecond}).load
		})
		for key := range int64(keys) {
			it := item(fmt.Sprint("key-", key), 1)
			it.Ticket = uint64(key)
			if err := h.Submit(t.Context(), it); err != nil {
				t.Fatal(err)
			}
		}
		if spilled := h.Spilled(); spilled < keys/2 {
			t.Fatalf("%d events have left memory", spilled)
		}
		outage.Store(false)
		over := time.Now()
		for h.pending() {
			<-time.After(100 * time.Millisecond)
		}
		// With one query for each key, four at a time, it takes 50 s.
		if took := time.Since(over); took > 15*time.Second {
			t.Errorf("publishing %d events after the outage took %v", keys, took)
		}
		h.finish(t)
	})
}

// TestDrainDoesNotWaitForEventsThatAreReadAgain drains while the event store does not answer.
func TestDrainDoesNotWaitForEventsThatAreReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var blocking, reading atomic.Bool
		blocking.Store(true)
		b := newBroker(refusing(fails(publish.FaultTransient), func(m *event.Message) bool { return blocking.Load() && isBad(m) }))
		h := newHarness(t, b, func(o *publish.Options) {
			o.MaxInflightEvents = 10
			o.Load = func(ctx context.Context, _ []publish.Ref) ([]publish.Loaded, error) {
				reading.Store(true)
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		h.start(ctx)
		for id := range int64(100) {
			h.submit(t, "bad-", id+1)
		}
		blocking.Store(false)
		for !reading.Load() {
			<-time.After(time.Second)
		}
		begun := time.Now()
		h.finish(t)
		if took := time.Since(begun); took > time.Second {
			t.Errorf("draining took %v", took)
		}
	})
}

// blockedKey has a key with 1,000 events that the topic blocks, so that most of them are not in
// memory.
func blockedKey(t *testing.T, load func(context.Context, []publish.Ref) ([]publish.Loaded, error)) (h *harness, blocking *atomic.Bool, metrics *publish.Metrics) {
	t.Helper()
	blocking = new(atomic.Bool)
	blocking.Store(true)
	b := newBroker(refusing(fails(publish.FaultTransient), func(m *event.Message) bool { return blocking.Load() && isBad(m) }))
	metrics = publish.NewMetrics(nil)
	h = newHarness(t, b, func(o *publish.Options) {
		o.MaxInflightEvents, o.Load, o.Metrics = 512, load, metrics
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	h.start(ctx)
	for id := range int64(1000) {
		h.submit(t, "bad-", id+1)
	}
	return h, blocking, metrics
}

// TestKeyWhoseEventsCannotBeReadIsDelayed: the topic accepts the key, but the event store
// does not give its events.
func TestKeyWhoseEventsCannotBeReadIsDelayed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		store := &reloads{fail: func() error {
			if broken.Load() {
				return errors.New("not authorized")
			}
			return nil
		}}
		h, blocking, metrics := blockedKey(t, store.load)
		blocking.Store(false)
		for h.ackedEvents() == 0 {
			<-time.After(time.Millisecond)
		}
		broken.Store(true)
		<-time.After(5 * time.Minute)
		delayed := metrics.Delayed()
		if delayed.Keys != 1 || delayed.Key != "bad-" || delayed.Err == nil || !strings.Contains(delayed.Err.Error(), "not authorized") || time.Since(delayed.Since) < 4*time.Minute {
			t.Errorf("delayed: %+v", delayed)
		}
		broken.Store(false)
		for h.pending() {
			<-time.After(time.Second)
		}
		if delayed := metrics.Delayed(); delayed.Keys != 0 {
			t.Errorf("delayed after all: %+v", delayed)
		}
		h.finish(t)
	})
}
