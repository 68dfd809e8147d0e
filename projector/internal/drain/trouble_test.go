package drain_test

import (
	"context"
	"slices"
	"sync"
	"testing"
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

// An aggregate that fails while others can be written is given up soon, and delays no other.
func TestFailingAggregateIsGivenUpAtOnce(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		m := newReadModels(time.Millisecond)
		m.fail(true)
		s := start(t, broker, m, func(o *drain.Options) { o.Slots, o.BatchSize = 2, 16 })
		neighbours := startFlow(broker, m, "bucket", 50*time.Millisecond, "a", "b")
		bad := startFlow(broker, m, "bucket", 100*time.Millisecond, "bad")
		pause(t.Context(), 10*time.Second)
		if reason := m.reason("bad"); reason != "unavailable" {
			t.Errorf("given up as %q", reason)
		}
		want := neighbours.end()
		want["bad"] = bad.end()["bad"]
		if neighbours.worst > 500*time.Millisecond {
			t.Errorf("an event of a neighbour took %s", neighbours.worst)
		}
		s.settled(t, time.Minute)
		m.fail(false)
		m.resume()
		m.applies(t, want)
		s.end(t)
	})
}

// A session whose only aggregate fails is released at the end of its tenure with
// unsettled messages, so that another session gets the slot.
func TestSessionThatOnlyRetriesEndsWithItsTenure(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		m := newReadModels(time.Millisecond)
		m.fail(true)
		broker.send("bucket", "bad", idsTo(2000)...)
		s := start(t, broker, m, func(o *drain.Options) { o.Slots, o.SessionTenure = 1, 10*time.Second })
		pause(t.Context(), 5*time.Second)
		broker.send("other", "free", idsTo(10)...)
		pause(t.Context(), 17*time.Second)
		m.applies(t, map[string]int64{"free": 10, "bad": 0})
		pause(t.Context(), 5*time.Minute)
		if n := broker.unsettled(); n != 2000 {
			t.Errorf("%d messages are unsettled, not all 2000", n)
		}
		m.fail(false)
		s.settled(t, 30*time.Second)
		m.applies(t, map[string]int64{"free": 10, "bad": 2000})
		s.end(t)
	})
}

// A stop does not wait for a store: the messages of a session that waits stay with the broker.
func TestStopsWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		m := newReadModels(time.Millisecond)
		m.outage()
		broker.send("bucket", "a", idsTo(5)...)
		broker.send("bucket", "b", idsTo(5)...)
		s := start(t, broker, m, nil)
		pause(t.Context(), 3*time.Second)
		if n := s.acceptor.Waiting(); n != 1 {
			t.Errorf("%d sessions wait, not 1", n)
		}
		s.endFast(t)
		if n := broker.unsettled(); n != 10 {
			t.Errorf("%d messages are left, not 10", n)
		}
		if n := s.acceptor.Waiting(); n != 0 {
			t.Errorf("%d sessions wait after the end", n)
		}
		m.applies(t, map[string]int64{"a": 0, "b": 0})
	})
}

// deferring is a handler that accepts one event per call.
type deferring struct{ *readModels }

func (h deferring) Handle(ctx context.Context, batch []*drain.Delivery, since time.Time) []model.Verdict {
	verdicts := h.readModels.Handle(ctx, batch[:1], since)
	for range batch[1:] {
		verdicts = append(verdicts, model.Verdict{Outcome: model.Deferred})
	}
	return verdicts
}

// Deliveries that a call had no room for are passed to the next call at once.
func TestDeferredEventsDoNotWait(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		m := newReadModels(time.Millisecond)
		broker.send("bucket", "a", idsTo(20)...)
		broker.send("bucket", "b", idsTo(20)...)
		s := start(t, broker, m, func(o *drain.Options) { o.Handler = deferring{m} })
		if took := s.settled(t, time.Second); took > 200*time.Millisecond {
			t.Errorf("40 events, one a call, took %s", took)
		}
		m.applies(t, map[string]int64{"a": 20, "b": 20})
		s.end(t)
	})
}
