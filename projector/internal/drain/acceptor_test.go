package drain_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
)

// setup is a running acceptor with a fake broker.
type setup struct {
	acceptor *drain.Acceptor
	broker   *fakeBroker
	model    *readModels
	stop     context.CancelFunc
	done     chan error
	reg      *prometheus.Registry
}

// optionsFor are options like those of a projector.
func optionsFor(broker *fakeBroker, h drain.Handler) drain.Options {
	return drain.Options{
		Dial: broker.Dial, Handler: h, Reader: testkit.EventReader(), Slots: 128, Connections: 4, BatchSize: 256, BufferBytes: 64 << 20,
		SessionIdle: 10 * time.Millisecond, SessionHold: time.Minute, SessionTenure: 2 * time.Minute, Behind: time.Minute, DrainTimeout: 20 * time.Second,
		Misread:   func(context.Context, error) bool { return false },
		Heartbeat: func(int) drain.Heartbeat { return new(heartbeat) },
		Connected: func() {},
	}
}

// start runs an acceptor until the bubble's test ends. change may change the
// options.
func start(t *testing.T, broker *fakeBroker, m *readModels, change func(*drain.Options)) *setup {
	t.Helper()
	s := &setup{broker: broker, model: m, done: make(chan error, 1), reg: prometheus.NewRegistry()}
	o := optionsFor(broker, m)
	o.Slots, o.Connections, o.Registerer = 4, 2, s.reg
	if change != nil {
		change(&o)
	}
	a := drain.New(o)
	s.acceptor = a
	ctx, cancel := context.WithCancel(t.Context())
	s.stop = cancel
	go func() { s.done <- a.Run(ctx) }()
	return s
}

// end stops the acceptor, and checks that no session and no connection is left open.
func (s *setup) end(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := s.broker.left(); err != nil {
		t.Error(err)
	}
}

// endFast is end, which must not take long.
func (s *setup) endFast(t *testing.T) {
	t.Helper()
	begin := time.Now()
	s.end(t)
	if took := time.Since(begin); took > 100*time.Millisecond {
		t.Errorf("stopping took %s", took)
	}
}

// settled waits until every message is settled, and returns how long that took in the
// bubble's time.
func (s *setup) settled(t *testing.T, within time.Duration) time.Duration {
	t.Helper()
	begin := time.Now()
	for s.broker.unsettled() > 0 {
		if time.Since(begin) > within {
			t.Fatalf("%d messages are not settled after %s", s.broker.unsettled(), within)
		}
		pause(t.Context(), time.Millisecond)
	}
	return time.Since(begin)
}

func idsTo(to int64) []int64 {
	var all []int64
	for id := int64(1); id <= to; id++ {
		all = append(all, id)
	}
	return all
}

// If a round trip to the broker is longer than a session may be idle, sessions must not
// be released before their first message arrives.
func TestDrainsWithLongRoundTrips(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		broker.rtt = 200 * time.Millisecond
		s := start(t, broker, newReadModels(time.Millisecond), func(o *drain.Options) { o.Slots = 1 })
		for i := range 4 {
			key := fmt.Sprint("far-", i)
			broker.send(key, key, idsTo(600)...)
		}
		s.settled(t, time.Minute)
		if broker.accepts != 4 {
			t.Errorf("%d accepts of 4 sessions", broker.accepts)
		}
		s.end(t)
	})
}

// The answer that there is no session also arrives from a broker with long round trips.
func TestConnectsWithLongRoundTripsWhenIdle(t *testing.T) {
	t.Parallel()
	for _, rtt := range []time.Duration{time.Millisecond, 49 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond} {
		t.Run(rtt.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				connected := make(chan struct{})
				s := start(t, newFakeBroker(rtt, time.Minute), newReadModels(time.Millisecond), func(o *drain.Options) {
					o.Connected = func() { close(connected) }
				})
				begin := time.Now()
				select {
				case <-connected:
				case <-time.After(time.Hour):
					t.Error("Connected was not called")
				}
				if took := time.Since(begin); took > 10*time.Second {
					t.Errorf("to see that there is no session took %s", took)
				}
				s.end(t)
			})
		})
	}
}

func TestStopFinishesReceivedMessages(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		broker.send("a", "a", idsTo(50)...)
		s := start(t, broker, newReadModels(time.Second), nil)
		pause(t.Context(), 200*time.Millisecond)
		s.end(t)
		s.model.applies(t, map[string]int64{"a": 50})
		if n := broker.unsettled(); n != 0 {
			t.Errorf("%d messages not settled", n)
		}
	})
}

func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		broker.send("a", "a", 1)
		m := newReadModels(time.Minute)
		s := start(t, broker, m, func(o *drain.Options) { o.DrainTimeout = 3 * time.Second })
		pause(t.Context(), time.Second)
		begin := time.Now()
		s.stop()
		if err := <-s.done; !errors.Is(err, drain.ErrDrainTimeout) {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("stopping took %s", took)
		}
	})
}

func TestFewAcceptsWaitWhenIdle(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		s := start(t, broker, newReadModels(time.Millisecond), func(o *drain.Options) { o.Slots = 32 })
		for i := range 32 {
			key := fmt.Sprint("burst-", i)
			broker.send(key, key, 1)
		}
		took := s.settled(t, time.Second)
		t.Logf("32 sessions found idle slots and were handled within %s", took)
		pause(t.Context(), 10*time.Minute)
		broker.mu.Lock()
		broker.maxWait = 0
		accepts := broker.accepts
		broker.mu.Unlock()
		pause(t.Context(), 10*time.Minute)
		broker.mu.Lock()
		if broker.maxWait > 2 {
			t.Errorf("%d accepts waited at once", broker.maxWait)
		}
		if broker.accepts != accepts {
			t.Errorf("sessions accepted without messages")
		}
		broker.mu.Unlock()
		s.end(t)
	})
}

func TestIdleSessionsReleaseTheirSlots(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		for i := range 4 {
			key := fmt.Sprint("first-", i)
			broker.send(key, key, 1)
		}
		s := start(t, broker, newReadModels(time.Millisecond), nil)
		s.settled(t, time.Second)
		pause(t.Context(), time.Second)
		if held := len(broker.held()); held != 2 {
			t.Errorf("%d sessions kept of 4 slots, want half", held)
		}
		broker.send("late", "late", 1)
		if took := s.settled(t, time.Second); took > 100*time.Millisecond {
			t.Errorf("a new session waited %s", took)
		}
		broker.send("first-2", "first-2", 2)
		if took := s.settled(t, time.Second); took > 500*time.Millisecond {
			t.Errorf("an idle session's event waited %s", took)
		}
		pause(t.Context(), 2*time.Minute)
		if held := broker.held(); len(held) > 0 {
			t.Errorf("sessions kept beyond SessionHold: %v", held)
		}
		s.endFast(t)
	})
}

func TestBusySessionsTakeTurns(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		s := start(t, broker, newReadModels(time.Millisecond), func(o *drain.Options) {
			o.Slots, o.SessionTenure = 1, 10*time.Second
		})
		want := map[string]int64{"a": 3000, "b": 3000}
		for id := range int64(3000) {
			broker.send("a", "a", id+1)
			broker.send("b", "b", id+1)
			pause(t.Context(), 20*time.Millisecond)
		}
		s.settled(t, 15*time.Second)
		s.model.applies(t, want)
		if broker.accepts < 6 {
			t.Errorf("%d accepts in a minute", broker.accepts)
		}
		s.end(t)
	})
}

func TestConnectionThatFailsIsReplacedOnce(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		var down atomic.Bool
		down.Store(true)
		broker.acceptErr = func() error {
			if down.Load() {
				return &azservicebus.Error{Code: azservicebus.CodeConnectionLost}
			}
			return nil
		}
		s := start(t, broker, newReadModels(time.Millisecond), func(o *drain.Options) { o.Slots, o.Connections = 16, 1 })
		broker.send("a", "a", 1)
		pause(t.Context(), time.Minute)
		broker.mu.Lock()
		if broker.dialled < 2 || broker.dialled > 10 || broker.open > 1 {
			t.Errorf("%d connections made in a minute, %d open", broker.dialled, broker.open)
		}
		broker.mu.Unlock()
		down.Store(false)
		s.settled(t, 31*time.Second)
		s.end(t)
	})
}

func TestConnectionWithAnOldKeyIsReplacedBeforeTheNextAccept(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		s := start(t, broker, newReadModels(time.Millisecond), func(o *drain.Options) { o.Slots, o.Connections = 16, 2 })
		for round := range 3 {
			for i := range 40 {
				id := fmt.Sprintf("%d-%d", round, i)
				broker.send(id, id, 1, 2, 3)
			}
			s.settled(t, 31*time.Second)
			broker.mu.Lock()
			broker.key++
			broker.mu.Unlock()
		}
		pause(t.Context(), 2*time.Minute)
		broker.mu.Lock()
		if broker.refused > 0 || broker.dialled < 6 || broker.open > 2 {
			t.Errorf("%d accepts refused, %d connections made for 4 keys, %d open", broker.refused, broker.dialled, broker.open)
		}
		broker.mu.Unlock()
		s.end(t)
	})
}

func TestRefusalEndsOnlyAStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refusal := func() error { return &azservicebus.Error{Code: azservicebus.CodeUnauthorizedAccess} }
		broker := newFakeBroker(2*time.Millisecond, time.Minute)
		broker.acceptErr = refusal
		s := start(t, broker, newReadModels(0), nil)
		if err := <-s.done; !errors.Is(err, drain.ErrRefused) {
			t.Errorf("Run: %v", err)
		}

		broker = newFakeBroker(2*time.Millisecond, time.Minute)
		broker.send("a", "a", 1)
		s = start(t, broker, newReadModels(0), nil)
		s.settled(t, time.Second)
		broker.mu.Lock()
		broker.acceptErr = refusal
		broker.mu.Unlock()
		pause(t.Context(), 10*time.Minute)
		select {
		case err := <-s.done:
			t.Errorf("Run: %v", err)
		default:
		}
		s.end(t)
	})
}
