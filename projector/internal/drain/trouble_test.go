package drain_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/drain"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// flow sends events of each aggregate to a session at a steady rate until it ends, and
// measures the longest time until an event is applied.
type flow struct {
	sent  map[string]int64
	worst time.Duration
	stop  chan struct{}
	done  sync.WaitGroup
}

func startFlow(broker *fakeBroker, m *readModels, session string, every time.Duration, aggregates ...string) *flow {
	type sending struct {
		key string
		id  int64
		at  time.Time
	}
	f := &flow{sent: make(map[string]int64), stop: make(chan struct{})}
	f.done.Go(func() {
		var open []sending
		for stopped := false; !stopped; {
			for _, key := range aggregates {
				f.sent[key]++
				broker.send(session, key, f.sent[key])
				open = append(open, sending{key, f.sent[key], time.Now()})
			}
			select {
			case <-f.stop:
				stopped = true
			case <-time.After(every):
			}
			m.mu.Lock()
			open = slices.DeleteFunc(open, func(s sending) bool { return m.watermark[s.key] >= s.id })
			m.mu.Unlock()
			for _, s := range open {
				f.worst = max(f.worst, time.Since(s.at))
			}
		}
	})
	return f
}

// end ends the flow and returns the number of events of each aggregate.
func (f *flow) end() map[string]int64 {
	close(f.stop)
	f.done.Wait()
	return f.sent
}

// An aggregate with many events that fails for minutes delays no other aggregate, and its
// session is released at the end of each tenure. The aggregate is given up after
// ParkAfter and not earlier, even if that time spans several tenures.
func TestFailingAggregateDelaysNoOther(t *testing.T) {
	t.Parallel()
	for _, tenure := range []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute} {
		t.Run(tenure.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				broker := newFakeBroker(2*time.Millisecond, time.Minute)
				m := newReadModels(time.Millisecond)
				m.fail("bad", true)
				s := start(t, broker, m, func(o *drain.Options) { o.Slots, o.SessionTenure, o.BatchSize = 2, tenure, 16 })
				neighbours := startFlow(broker, m, "bucket", 500*time.Millisecond, "a", "b")
				bad := startFlow(broker, m, "bucket", 100*time.Millisecond, "bad")
				pause(t.Context(), 55*time.Second)
				if reason := m.reason("bad"); reason != "" {
					t.Errorf("given up as %s after less than a minute", reason)
				}
				pause(t.Context(), 20*time.Second)
				if reason := m.reason("bad"); reason != "unavailable" {
					t.Errorf("given up as %q after more than a minute", reason)
				}
				pause(t.Context(), 75*time.Second)
				want := neighbours.end()
				want["bad"] = bad.end()["bad"]
				// A release and an accept are about 20 round trips.
				if neighbours.worst > 500*time.Millisecond {
					t.Errorf("an event of a neighbour took %s", neighbours.worst)
				}
				if held := broker.timesHeld("bucket"); held < int(150*time.Second/tenure)-1 {
					t.Errorf("the session was accepted %d times in 150 s with a tenure of %s", held, tenure)
				}
				s.settled(t, time.Minute)
				m.fail("bad", false)
				m.resume()
				m.applies(t, want)
				s.end(t)
			})
		})
	}
}

// Many more sessions than slots have only an aggregate in trouble: an event is missing, or the
// store refuses each attempt because of another document. They take turns, so other sessions get
// slots, and each aggregate is given up in its time.
func TestManySessionsInTroubleTakeTurns(t *testing.T) {
	t.Parallel()
	const slots, timeout, good = 8, time.Minute, 40
	for _, test := range []struct {
		reason   string
		first    int64
		sessions int
		latency  time.Duration
	}{
		{"missing", 2, 200, time.Millisecond},
		{"unavailable", 1, 200, time.Millisecond},
		// An attempt takes longer than a session that is stuck is at least kept.
		{"missing", 2, 100, 200 * time.Millisecond},
		{"unavailable", 1, 100, 200 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(test.reason, " ", test.latency), func(t *testing.T) {
			t.Parallel()
			withEachReceiver(t, func(t *testing.T, broker *fakeBroker) {
				t.Helper()
				m := newReadModels(test.latency)
				m.conflicts = true
				for i := range test.sessions {
					key := fmt.Sprint("bad-", i)
					m.fail(key, test.reason == "unavailable")
					broker.send(key, key, test.first)
				}
				s := start(t, broker, m, func(o *drain.Options) { o.Slots, o.GapTimeout, o.ParkAfter = slots, timeout, timeout })
				for i := range good {
					pause(t.Context(), 500*time.Millisecond)
					key := fmt.Sprint("good-", i)
					broker.send(key, key, 1)
				}
				pause(t.Context(), 15*time.Second)
				for i := range good {
					m.applies(t, map[string]int64{fmt.Sprint("good-", i): 1})
				}
				for i := range test.sessions {
					if reason := m.reason(fmt.Sprint("bad-", i)); reason != "" {
						t.Errorf("bad-%d is given up as %s before its time", i, reason)
					}
				}
				s.settled(t, 70*time.Second)
				for i := range test.sessions {
					if reason := m.reason(fmt.Sprint("bad-", i)); reason != test.reason {
						t.Errorf("bad-%d is given up as %q, want %s", i, reason, test.reason)
					}
				}
				s.end(t)
			})
		})
	}
}

// Sessions in trouble take every slot, and no other session waits. If they took turns, each of
// them would be accepted again at once, several times a second. In a session with healthy events
// too, those in trouble would be delivered again each time.
func TestSessionsInTroubleStayIfNoneWaits(t *testing.T) {
	t.Parallel()
	for name, healthy := range map[string]bool{"alone": false, "beside healthy events": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withEachReceiver(t, func(t *testing.T, broker *fakeBroker) {
				t.Helper()
				const sessions = 8
				m := newReadModels(time.Millisecond)
				m.conflicts = true
				for i := range sessions {
					m.fail(fmt.Sprint("bad-", i), true)
					broker.send(fmt.Sprint("session-", i), fmt.Sprint("bad-", i), 1)
				}
				s := start(t, broker, m, func(o *drain.Options) { o.Slots = sessions })
				for event := range int64(150) {
					for i := 0; i < sessions && healthy; i++ {
						broker.send(fmt.Sprint("session-", i), fmt.Sprint("good-", i), event+1)
					}
					pause(t.Context(), 200*time.Millisecond)
				}
				held := 0
				for i := range sessions {
					held += broker.timesHeld(fmt.Sprint("session-", i))
				}
				if held > 8*sessions {
					t.Errorf("%d sessions were accepted %d times in 30 s", sessions, held)
				}
				m.recover()
				s.settled(t, 10*time.Second)
				s.end(t)
			})
		})
	}
}

// A session whose only aggregate fails is released at the end of its tenure with
// unsettled messages, so that another session gets the slot.
func TestSessionThatOnlyRetriesEndsWithItsTenure(t *testing.T) {
	t.Parallel()
	withEachReceiver(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		m := newReadModels(time.Millisecond)
		m.fail("bad", true)
		broker.send("bucket", "bad", ids(1, 2000)...)
		s := start(t, broker, m, func(o *drain.Options) { o.Slots, o.SessionTenure = 1, 10*time.Second })
		pause(t.Context(), 5*time.Second)
		broker.send("other", "free", ids(1, 10)...)
		pause(t.Context(), 17*time.Second)
		m.applies(t, map[string]int64{"free": 10, "bad": 0})
		pause(t.Context(), 5*time.Minute)
		if n := broker.unsettled(); n != 2000 {
			t.Errorf("%d messages are unsettled, not all 2000", n)
		}
		m.fail("bad", false)
		s.settled(t, 30*time.Second)
		m.applies(t, map[string]int64{"free": 10, "bad": 2000})
		s.end(t)
	})
}

// During an outage of the store, no aggregate is given up, and the broker's deliveries
// are held back.
func TestOutageParksNoAggregate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := newFakeBroker(2*time.Millisecond, time.Minute)
		m := newReadModels(time.Millisecond)
		s := start(t, broker, m, func(o *drain.Options) { o.BatchSize, o.SessionTenure = 16, 30*time.Second })
		want := make(map[string]int64)
		send := func(from, to int64) {
			for i := range 20 {
				key := fmt.Sprint("aggregate-", i)
				broker.send(fmt.Sprint("bucket-", i%4), key, ids(from, to)...)
				want[key] = to
			}
		}
		send(1, 10)
		s.settled(t, 5*time.Second)
		m.outage(true)
		send(11, 100)
		pause(t.Context(), 30*time.Minute)
		m.gaveUpNone(t)
		broker.mu.Lock()
		if broker.maxHeld > 6*16 {
			t.Errorf("a session held %d messages at once", broker.maxHeld)
		}
		broker.mu.Unlock()
		m.outage(false)
		s.settled(t, 10*time.Second)
		m.applies(t, want)
		s.end(t)
	})
}

// conflicting is a handler whose store rejects every event because of another document.
type conflicting struct{}

func (conflicting) Handle(_ context.Context, batch []*drain.Delivery, attempt model.Attempt) []model.Verdict {
	verdicts := make([]model.Verdict, len(batch))
	for i := range verdicts {
		verdicts[i] = model.Verdict{Outcome: model.Retry, Answered: true}
		if attempt == model.GiveUp {
			verdicts[i] = model.Verdict{Outcome: model.Done}
		}
	}
	return verdicts
}

// An aggregate whose document conflicts with another one is given up in time even if
// nothing else is written, because the rejection shows that the store works.
func TestSingleConflictIsGivenUpInTime(t *testing.T) {
	t.Parallel()
	withEachReceiver(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		broker.send("bucket", "bad", 1)
		s := start(t, broker, newReadModels(time.Millisecond), func(o *drain.Options) {
			o.Handler, o.ParkAfter = conflicting{}, time.Minute
		})
		pause(t.Context(), 50*time.Second)
		if n := broker.unsettled(); n != 1 {
			t.Errorf("%d messages are unsettled before the time is up, want 1", n)
		}
		s.settled(t, 30*time.Second)
		s.end(t)
	})
}

// If thousands of aggregates fail at the same time, the store is the reason, so none is
// given up even if others are written.
func TestManyFailingAggregatesParkNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const sessions, aggregates = 6, 4800
		broker := newFakeBroker(2*time.Millisecond, time.Minute)
		m := newReadModels(time.Millisecond)
		want := make(map[string]int64)
		for i := range aggregates {
			key := fmt.Sprint("bad-", i)
			m.fail(key, true)
			broker.send(fmt.Sprint("bucket-", i%sessions), key, 1)
			want[key] = 1
		}
		s := start(t, broker, m, func(o *drain.Options) { o.Slots, o.ParkAfter = sessions+1, 5*time.Second })
		f := startFlow(broker, m, "other", time.Second, "a")
		pause(t.Context(), 15*time.Second)
		m.gaveUpNone(t)
		m.recover()
		s.settled(t, time.Minute)
		want["a"] = f.end()["a"]
		s.settled(t, time.Second)
		m.applies(t, want)
		s.end(t)
	})
}

// A stop does not wait for lanes that are being retried: their messages stay with the
// broker.
func TestStopsWhileAggregatesFail(t *testing.T) {
	t.Parallel()
	withEachReceiver(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		m := newReadModels(time.Millisecond)
		m.fail("bad", true)
		broker.send("bucket", "bad", ids(1, 5)...)
		broker.send("bucket", "gap", 2)
		broker.send("bucket", "free", ids(1, 5)...)
		s := start(t, broker, m, nil)
		pause(t.Context(), 3*time.Second)
		s.endFast(t)
		if n := broker.unsettled(); n != 6 {
			t.Errorf("%d messages are left, not 6", n)
		}
		m.applies(t, map[string]int64{"free": 5, "bad": 0, "gap": 0})
	})
}

// hanging is a handler whose calls with an event of the aggregate hang until their
// context ends.
type hanging struct {
	*readModels
	aggregate string
}

func (h hanging) Handle(ctx context.Context, batch []*drain.Delivery, attempt model.Attempt) []model.Verdict {
	for _, d := range batch {
		if d.Event.AggregateID == h.aggregate {
			<-ctx.Done()
			return make([]model.Verdict, len(batch))
		}
	}
	return h.readModels.Handle(ctx, batch, attempt)
}

// If the writes of an aggregate hang, only the aggregates in its first call are delayed,
// until that call ends.
func TestHangingCallDelaysOnlyItsAggregates(t *testing.T) {
	t.Parallel()
	withEachReceiver(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		m := newReadModels(time.Millisecond)
		s := start(t, broker, m, func(o *drain.Options) { o.Slots, o.Handler = 1, hanging{m, "bad"} })
		want := map[string]int64{"bad": 0}
		for i := range 100 {
			if i == 50 {
				broker.send("bucket", "bad", 1)
			}
			broker.send("bucket", fmt.Sprint("other-", i), 1)
			want[fmt.Sprint("other-", i)] = 1
		}
		pause(t.Context(), 50*time.Millisecond)
		f := startFlow(broker, m, "bucket", 100*time.Millisecond, "a", "b", "c")
		pause(t.Context(), time.Minute)
		maps.Copy(want, f.end())
		if f.worst > 1500*time.Millisecond {
			t.Errorf("an event took %s", f.worst)
		}
		pause(t.Context(), time.Second)
		m.applies(t, want)
		s.endFast(t)
	})
}

// deferring is a handler that accepts one event per call.
type deferring struct{ *readModels }

func (h deferring) Handle(ctx context.Context, batch []*drain.Delivery, attempt model.Attempt) []model.Verdict {
	verdicts := h.readModels.Handle(ctx, batch[:1], attempt)
	for range batch[1:] {
		verdicts = append(verdicts, model.Verdict{Outcome: model.Deferred})
	}
	return verdicts
}

// Deliveries that a call had no room for are passed to the next call at once.
func TestDeferredEventsDoNotWait(t *testing.T) {
	t.Parallel()
	withEachReceiver(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		m := newReadModels(time.Millisecond)
		broker.send("bucket", "a", ids(1, 20)...)
		broker.send("bucket", "b", ids(1, 20)...)
		s := start(t, broker, m, func(o *drain.Options) { o.Handler = deferring{m} })
		if took := s.settled(t, time.Second); took > 200*time.Millisecond {
			t.Errorf("40 events, one a call, took %s", took)
		}
		m.applies(t, map[string]int64{"a": 20, "b": 20})
		s.end(t)
	})
}
