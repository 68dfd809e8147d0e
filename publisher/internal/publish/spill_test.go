package publish_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// blockages are the ways in which a topic can hold up one key.
func blockages() map[string]answer {
	busy := fails(publish.FaultBusy)
	busy.after = time.Millisecond
	return map[string]answer{
		"busy":           busy,
		"internal error": fails(publish.FaultTransient),
		"no answer":      ok(time.Hour),
		"slow":           ok(800 * time.Millisecond),
	}
}

// TestBlockedKeysDoNotStopTheOthers blocks one of sixteen keys, and then half of them, for
// two minutes in which each gets several times the events that may be in flight. All other
// keys must be published as they come, and the blocked ones in order afterwards.
func TestBlockedKeysDoNotStopTheOthers(t *testing.T) {
	t.Parallel()
	const keys, inflight, outage, interval = 16, 256, 2 * time.Minute, 100 * time.Millisecond
	for fault, bad := range blockages() {
		for _, blocked := range []int{1, 8} {
			for _, policy := range []publish.Batching{publish.BatchingOff, publish.BatchingSession, publish.BatchingMixed} {
				if fault == "no answer" && policy == publish.BatchingMixed {
					continue // each mixed batch with such a key waits until the send's timeout
				}
				if fault == "busy" && blocked > 1 {
					continue // the namespace counts as busy if half of the keys are
				}
				if fault == "slow" && policy == publish.BatchingMixed {
					continue // the topic answers mixed batches slowly then
				}
				t.Run(fmt.Sprintf("%s/%d/%s", fault, blocked, policy), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						var blocking atomic.Bool
						blocking.Store(true)
						b := newBroker(refusing(bad, func(m *event.Message) bool { return blocking.Load() && isBad(m) }))
						store := &reloads{after: 5 * time.Millisecond}
						h := newHarness(t, b, func(o *publish.Options) {
							o.Batching, o.MaxInflightEvents, o.Load = policy, inflight, store.load
							o.MaxBatchEvents = 50
						})
						h.start(t.Context())
						begun := time.Now()
						worst := time.Duration(0)
						id := int64(0)
						for ; time.Since(begun) < outage; id++ {
							due := begun.Add(time.Duration(id) * interval)
							for key := range keys {
								name := fmt.Sprint("good-", key)
								if key < blocked {
									name = fmt.Sprint("bad-", key)
								}
								it := item(name, id+1)
								it.Ticket = uint64(id)*keys + uint64(key)
								if err := h.Submit(t.Context(), it); err != nil {
									t.Fatal(err)
								}
							}
							worst = max(worst, time.Since(due))
							if events, _ := h.Inflight(); events > inflight*5/4+50 {
								t.Fatalf("%d events are in flight", events)
							}
							<-time.After(time.Until(due.Add(interval)))
						}
						<-time.After(time.Second)
						good := 0
						for _, m := range b.stored() {
							if strings.HasPrefix(m.AggregateID, "good-") {
								good++
							}
						}
						if want := (keys - blocked) * int(id); good != want {
							t.Errorf("%d of %d events of the other keys are on the topic during the blockage", good, want)
						}
						// Until lanes are known to be blocked, they may hold up the others for a moment.
						if worst > 3*time.Second {
							t.Errorf("an event was submitted %v late", worst)
						}
						blocking.Store(false)
						h.finishAll(t, keys*int(id))
					})
				})
			}
		}
	}
}

// TestBurstOfABlockedKeyDoesNotStopTheOthers fills the bound with events of one key before
// any other event comes.
func TestBurstOfABlockedKeyDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	for fault, bad := range blockages() {
		if fault == "slow" {
			continue // the key goes on
		}
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const inflight, burst = 100, 1000
				var blocking atomic.Bool
				blocking.Store(true)
				b := newBroker(refusing(bad, func(m *event.Message) bool { return blocking.Load() && isBad(m) }))
				h := newHarness(t, b, func(o *publish.Options) {
					o.MaxInflightEvents, o.MaxBatchEvents, o.Load = inflight, 10, (&reloads{}).load
				})
				h.start(t.Context())
				h.submit(t, "good", 1)
				synctest.Wait()
				<-time.After(10 * time.Millisecond)
				begun := time.Now()
				for id := range int64(burst) {
					it := item("bad-", id+1)
					it.Ticket = uint64(10_000 + id)
					if err := h.Submit(t.Context(), it); err != nil {
						t.Fatal(err)
					}
				}
				h.submit(t, "good", 2)
				for len(b.stored()) < 2 {
					<-time.After(10 * time.Millisecond)
				}
				if took := time.Since(begun); took > 2*time.Second {
					t.Errorf("an event behind the burst took %v", took)
				}
				blocking.Store(false)
				h.finishAll(t, burst+2)
			})
		})
	}
}

// TestSpilledLanesOccupyNoSlot blocks more keys than there are slots, so that keys which wait
// for a slot are dropped from memory.
func TestSpilledLanesOccupyNoSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const inflight, bad, rounds = 8, 8, 3000
		var blocking atomic.Bool
		blocking.Store(true)
		b := newBroker(refusing(ok(time.Hour), func(m *event.Message) bool { return blocking.Load() && isBad(m) }))
		h := newHarness(t, b, func(o *publish.Options) {
			o.Batching, o.MaxInflightEvents, o.MaxSends, o.Load = publish.BatchingSession, inflight, 1, (&reloads{}).load
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		h.start(ctx)
		ticket := uint64(0)
		submit := func(key string, id int64) {
			it := item(key, id)
			it.Ticket = ticket
			ticket++
			if err := h.Submit(ctx, it); err != nil {
				t.Fatal(err)
			}
		}
		for key := range bad {
			submit(fmt.Sprint("bad-", key), 1)
		}
		for round := range int64(rounds) {
			submit("good", round+1)
			<-time.After(100 * time.Millisecond)
		}
		blocking.Store(false)
		for end := time.Now().Add(10 * time.Minute); h.pending() && time.Now().Before(end); {
			<-time.After(time.Second)
		}
		if h.pending() {
			t.Fatalf("%d of %d events are acknowledged ten minutes after the blockage", h.ackedEvents(), ticket)
		}
		h.finish(t)
	})
}

// TestBlockedAgainAfterReadingAgain blocks a key once more while it has events in memory that
// were read again, and others behind them that were not.
func TestBlockedAgainAfterReadingAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const inflight = 160 // of which 10 are read again at once
		var blocking atomic.Bool
		blocking.Store(true)
		bad := refusing(fails(publish.FaultTransient), func(m *event.Message) bool { return blocking.Load() && isBad(m) })
		b := newBroker(func(messages []*event.Message) answer {
			if a := bad(messages); a.fault != nil {
				return a
			}
			return ok(100 * time.Millisecond)
		})
		store := &reloads{}
		h := newHarness(t, b, func(o *publish.Options) {
			o.Batching, o.MaxInflightEvents, o.MaxBatchEvents, o.Load = publish.BatchingSession, inflight, 1, store.load
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		h.start(ctx)
		ticket, id, good := uint64(0), int64(0), int64(0)
		submit := func(key string, id int64) {
			it := item(key, id)
			it.Ticket = ticket
			ticket++
			if err := h.Submit(ctx, it); err != nil {
				t.Fatal(err)
			}
		}
		neighbour := func() {
			good++
			submit("good", good)
			for begun := time.Now(); !slices.ContainsFunc(b.stored(), func(m event.Message) bool { return m.AggregateID == "good" && m.EventID == good }); {
				if <-time.After(10 * time.Millisecond); time.Since(begun) > 2*time.Second {
					t.Fatalf("an event behind those of the blocked key took more than %v", time.Since(begun))
				}
			}
		}
		neighbour()
		for range 2 * inflight {
			id++
			submit("bad-", id)
		}
		neighbour()
		blocking.Store(false)
		for h.Spilled() > 0 {
			<-time.After(time.Millisecond)
		}
		// The last events that were read again are in memory now.
		for range inflight / 2 {
			id++
			submit("bad-", id)
		}
		if h.Spilled() > 0 {
			t.Fatal("the events behind those that were read again are not in memory")
		}
		blocking.Store(true)
		for range 2 * inflight {
			id++
			submit("bad-", id)
		}
		neighbour()
		blocking.Store(false)
		h.finishAll(t, int(ticket))
	})
}

// TestBusyKeyDoesNotSlowDownTheOthers has one key with as many events as all others
// together, more than a serial lane can send.
func TestBusyKeyDoesNotSlowDownTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const inflight, rounds = 200, 2000
		b := newBroker(func([]*event.Message) answer { return ok(50 * time.Millisecond) })
		store := &reloads{after: 2 * time.Millisecond}
		h := newHarness(t, b, func(o *publish.Options) {
			o.Batching, o.MaxInflightEvents, o.MaxBatchEvents, o.Load = publish.BatchingSession, inflight, 10, store.load
		})
		h.start(t.Context())
		begun := time.Now()
		ticket := uint64(0)
		submit := func(key string, id int64) {
			it := item(key, id)
			it.Ticket = ticket
			ticket++
			if err := h.Submit(t.Context(), it); err != nil {
				t.Fatal(err)
			}
		}
		for round := range int64(rounds) {
			submit("busy", round+1)
			submit(fmt.Sprint("other-", round%50), round/50+1)
			<-time.After(time.Millisecond)
		}
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("submitting for 2 s took %v", took)
		}
		h.finishAll(t, 2*rounds)
	})
}

// TestOutageIsReadAheadToTheBound lets the whole topic fail after it has worked.
func TestOutageIsReadAheadToTheBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const inflight, spilled = 100, 1000
		var outage atomic.Bool
		b := newBroker(refusing(fails(publish.FaultTransient), func(*event.Message) bool { return outage.Load() }))
		h := newHarness(t, b, func(o *publish.Options) {
			o.MaxInflightEvents, o.MaxSpilledEvents, o.Load = inflight, spilled, (&reloads{}).load
		})
		h.start(t.Context())
		h.submit(t, "key-0", 1)
		synctest.Wait()
		outage.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		submitted := 1
		for {
			it := item(fmt.Sprint("key-", submitted%10), int64(submitted/10+1))
			it.Ticket = uint64(submitted + 1)
			if h.Submit(ctx, it) != nil {
				break
			}
			submitted++
		}
		if submitted < spilled || submitted > spilled+2*inflight {
			t.Errorf("%d events were read during the outage, want the %d that need not be in memory and the %d that may be", submitted, spilled, inflight)
		}
		outage.Store(false)
		h.finishAll(t, submitted)
	})
}

// TestSpilledEventsThatAreGoneAreQuarantined deletes events while they wait.
func TestSpilledEventsThatAreGoneAreQuarantined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const events = 100
		var blocking atomic.Bool
		blocking.Store(true)
		b := newBroker(refusing(fails(publish.FaultTransient), func(m *event.Message) bool { return blocking.Load() && isBad(m) }))
		store := &reloads{}
		h := newHarness(t, b, func(o *publish.Options) {
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
		h.start(t.Context())
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
		h := newHarness(t, b, func(o *publish.Options) {
			o.Batching, o.MaxInflightEvents, o.MaxBatchEvents, o.Load = publish.BatchingSession, inflight, 2, (&reloads{}).load
		})
		h.start(t.Context())
		ticket := uint64(0)
		submit := func(key string, id int64) {
			it := item(key, id)
			it.Ticket = ticket
			ticket++
			if err := h.Submit(t.Context(), it); err != nil {
				t.Fatal(err)
			}
		}
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
		h.finishAll(t, int(ticket))
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
		h := newHarness(t, b, func(o *publish.Options) {
			o.Batching, o.MaxInflightEvents, o.Load = publish.BatchingMixed, inflight, (&reloads{after: 10 * time.Millisecond}).load
		})
		h.start(t.Context())
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
