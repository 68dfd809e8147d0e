package publish_test

import (
	"context"
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
						h := startHarness(t, b, func(o *publish.Options) {
							o.Batching, o.MaxInflightEvents, o.Load = policy, inflight, store.load
							o.MaxBatchEvents = 50
						})
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
				h := startHarness(t, b, func(o *publish.Options) {
					o.MaxInflightEvents, o.MaxBatchEvents, o.Load = inflight, 10, (&reloads{}).load
				})
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
		submit := func(key string, id int64) { h.submitNext(ctx, t, key, id) }
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
			t.Fatalf("%d of %d events are acknowledged ten minutes after the blockage", h.ackedEvents(), h.submitted)
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
		id, good := int64(0), int64(0)
		submit := func(key string, id int64) { h.submitNext(ctx, t, key, id) }
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
		h.finishAll(t, int(h.submitted))
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
		h := startHarness(t, b, func(o *publish.Options) {
			o.Batching, o.MaxInflightEvents, o.MaxBatchEvents, o.Load = publish.BatchingSession, inflight, 10, store.load
		})
		begun := time.Now()
		submit := func(key string, id int64) { h.submitNext(t.Context(), t, key, id) }
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
		h := startHarness(t, b, func(o *publish.Options) {
			o.MaxInflightEvents, o.MaxSpilledEvents, o.Load = inflight, spilled, (&reloads{}).load
		})
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
