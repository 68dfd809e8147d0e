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

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

func TestSessionRenewsItsLock(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		broker.lockFor = 30 * time.Second
		var renewals atomic.Int64
		broker.renewErr = func() error {
			// Two of three renewals fail.
			if renewals.Add(1)%3 != 0 {
				return errors.New("somehow")
			}
			return nil
		}
		broker.send("a", "a", 1)
		var failing atomic.Bool
		failing.Store(true)
		m := newReadModels(time.Millisecond)
		m.transient = failing.Load
		s := start(t, broker, m, func(o *drain.Options) { o.SessionTenure = time.Hour })
		pause(t.Context(), 10*time.Minute)
		if n := broker.sessions["a"].held; n != 1 {
			t.Errorf("the session was accepted %d times while the store was down", n)
		}
		failing.Store(false)
		s.settled(t, 10*time.Second)
		s.end(t)
	})
}

func TestLostLockEndsTheSession(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*fakeBroker){
		"broker reports it": func(b *fakeBroker) {
			b.renewErr = func() error { return &azservicebus.Error{Code: azservicebus.CodeLockLost} }
		},
		"renewal refused": func(b *fakeBroker) { b.renewErr = func() error { return errors.New("somehow") } },
		"renewal hangs": func(b *fakeBroker) {
			b.renewErr = func() error { pause(context.Background(), time.Minute); return nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				// Not twice the time of a call, whose end would come in the same instant as a renewal.
				broker := newFakeBroker(2*time.Millisecond, 28*time.Second)
				lose(broker)
				broker.send("a", "a", 1)
				h := &blocked{began: make(chan time.Time, 1), ended: make(chan error, 1)}
				s := start(t, broker, newReadModels(0), func(o *drain.Options) { o.Handler = h })
				began := <-h.began
				if err := <-h.ended; !errors.Is(err, drain.ErrLockLost) {
					t.Errorf("the work ended with %v", err)
				}
				if after := time.Since(began); after > 25*time.Second {
					t.Errorf("the work went on for %s of a lock of 28s", after)
				}
				s.stop()
				if err := <-s.done; err != nil {
					t.Error(err)
				}
				pause(t.Context(), time.Minute)
			})
		})
	}
}

// blocked is a handler whose first call waits until its context ends.
type blocked struct {
	began chan time.Time
	ended chan error
}

func (h *blocked) Handle(ctx context.Context, batch []*drain.Delivery, _ time.Time) []model.Verdict {
	select {
	case h.began <- time.Now():
	default:
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
		select {
		case h.ended <- err:
		default:
		}
	}
	return make([]model.Verdict, len(batch))
}

func TestOnlyInvalidMessagesAreDeadLettered(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		broker.sendBody("bucket", "no event", []byte("{}"))
		broker.send("bucket", "a", idsTo(6)...)
		broker.send("bucket", "b", idsTo(6)...)
		m := newReadModels(time.Millisecond)
		m.poison["a"] = 3
		s := start(t, broker, m, nil)
		s.settled(t, time.Second)
		m.applies(t, map[string]int64{"a": 2, "b": 6})
		want := map[string]string{"no event": drain.ReasonInvalidMessageFormat}
		if fmt.Sprint(broker.dead) != fmt.Sprint(want) {
			t.Errorf("dead letters %v, want %v", broker.dead, want)
		}
		s.end(t)
	})
}

func TestSlowSettlingIsBounded(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		broker.settleDelay = time.Minute
		broker.send("a", "a", idsTo(20)...)
		s := start(t, broker, newReadModels(time.Millisecond), nil)
		pause(t.Context(), time.Second)
		begin := time.Now()
		s.end(t)
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("stopping took %s", took)
		}
		s.model.applies(t, map[string]int64{"a": 20})
	})
}

// If a slow broker must settle more messages than are settled at once, the last
// settlements have as much time as the first.
func TestWaitingSettlementsKeepTheirFullTimeout(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		broker.settleDelay = 2 * time.Second
		broker.send("a", "a", idsTo(600)...)
		s := start(t, broker, newReadModels(time.Millisecond), func(o *drain.Options) { o.BatchSize = 600 })
		s.settled(t, 25*time.Second)
		if held := broker.timesHeld("a"); held != 1 {
			t.Errorf("the session was accepted %d times: settlements were given up", held)
		}
		if broker.maxSettling != 64 {
			t.Errorf("%d settlements were in flight at the same time, want 64", broker.maxSettling)
		}
		s.end(t)
	})
}

// If the broker does not confirm one of many settlements, the message comes again as soon
// as the session has nothing else to do, instead of at the end of its hold time.
func TestUnconfirmedSettlementEndsTheSession(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		var settlements atomic.Int64
		broker.settleErr = func() error {
			if settlements.Add(1) == 7 {
				return errors.New("somehow")
			}
			return nil
		}
		broker.send("a", "a", idsTo(20)...)
		s := start(t, broker, newReadModels(time.Millisecond), func(o *drain.Options) { o.SessionHold = time.Hour })
		s.settled(t, 5*time.Second)
		if held := broker.timesHeld("a"); held != 2 {
			t.Errorf("the session was accepted %d times, want 2", held)
		}
		if refused := testkit.Metric(t, s.reg, "penstock_projector_settlements_total", "complete", "refused"); refused != 0 {
			t.Errorf("%v settlements were tried again, which the receiver refuses", refused)
		}
		s.model.applies(t, map[string]int64{"a": 20})
		s.end(t)
	})
}

// A link that ends is replaced, whether its receiver returns an error or, like that of the SDK,
// neither a message nor an error.
func TestEndedLinkEndsTheSession(t *testing.T) {
	t.Parallel()
	for name, reports := range map[string]error{"an error": errDetached, "nothing": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withBroker(t, func(t *testing.T, broker *fakeBroker) {
				t.Helper()
				broker.linkErr = reports
				s := start(t, broker, newReadModels(time.Millisecond), nil)
				broker.send("a", "a", 1)
				s.settled(t, time.Second)
				broker.mu.Lock()
				broker.detach(broker.sessions["a"])
				broker.mu.Unlock()
				broker.send("a", "a", 2)
				s.settled(t, time.Second)
				s.model.applies(t, map[string]int64{"a": 2})
				s.endFast(t)
			})
		})
	}
}

func TestBuffersAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		s := start(t, broker, newReadModels(50*time.Millisecond), func(o *drain.Options) {
			o.Slots, o.BufferBytes = 1, 3<<18
			// The session estimates the sizes of messages, so it must not end early.
			o.SessionIdle = 30 * time.Millisecond
		})
		send := func(from, to int64, size int) {
			for id := from; id <= to; id++ {
				broker.sendBody("a", fmt.Sprint("a/", id), sized("a", id, size))
			}
		}
		send(1, 1000, 100)
		s.settled(t, time.Minute)
		send(1001, 1100, 1<<18)
		s.settled(t, time.Minute)
		send(1101, 2000, 100)
		s.settled(t, time.Minute)
		broker.mu.Lock()
		broker.maxOut = 0
		broker.mu.Unlock()
		send(2001, 2100, 1<<18)
		s.settled(t, time.Minute)
		s.model.applies(t, map[string]int64{"a": 2100})
		// The first large messages are not expected. Messages that are being handled and
		// settled come on top of the inbox.
		if size := broker.maxOut; size > 8<<20 {
			t.Errorf("%d KiB were out at once", size>>10)
		}
		s.end(t)
	})
}

// While the store is down, the waiting messages are bounded too, both for many events and
// for one that comes repeatedly.
func TestMessagesThatWaitForTheStoreAreBounded(t *testing.T) {
	t.Parallel()
	const size = 1 << 14
	for name, id := range map[string]func(i int) int64{
		"many events":           func(i int) int64 { return int64(i) + 1 },
		"few events repeatedly": func(i int) int64 { return int64(i)%8 + 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				broker := newFakeBroker(2*time.Millisecond, time.Minute)
				last := int64(0)
				for i := range 2000 {
					last = max(last, id(i))
					broker.sendBody("a", fmt.Sprint("a/", id(i)), sized("a", id(i), size))
				}
				var failing atomic.Bool
				failing.Store(true)
				m := newReadModels(time.Millisecond)
				m.transient = failing.Load
				s := start(t, broker, m, func(o *drain.Options) { o.Slots, o.BufferBytes = 1, 1<<20 })
				pause(t.Context(), 5*time.Minute)
				broker.mu.Lock()
				out := broker.maxOut
				broker.mu.Unlock()
				// The bound is the inbox, the same size in the queue, and one more
				// message in each of both.
				if out > 2<<20+2*(size+1<<10) {
					t.Errorf("%d KiB were out at once", out>>10)
				}
				failing.Store(false)
				s.settled(t, time.Minute)
				m.applies(t, map[string]int64{"a": last})
				s.end(t)
			})
		})
	}
}

// TestUnreadableMessagesWaitForTheFirstEvent checks that a process settles no unreadable message
// until it has read an event. At its end it returns such messages to the broker. After the first
// event it dead-letters them.
func TestUnreadableMessagesWaitForTheFirstEvent(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		broker.sendBody("other", "no event", []byte("{}"))
		former := start(t, broker, newReadModels(0), nil)
		pause(t.Context(), time.Second)
		former.end(t)
		if broker.unsettled() != 1 || len(broker.dead) != 0 {
			t.Errorf("%d messages are unsettled, dead letters %v", broker.unsettled(), broker.dead)
		}
		s := start(t, broker, newReadModels(0), nil)
		pause(t.Context(), 10*time.Second)
		if err := s.acceptor.Unreadable(); err == nil || broker.unsettled() != 1 || len(broker.dead) != 0 {
			t.Errorf("%d messages are unsettled, dead letters %v, error %v", broker.unsettled(), broker.dead, err)
		}
		broker.send("another", "a", 1)
		s.settled(t, 10*time.Second)
		if err := s.acceptor.Unreadable(); err != nil || len(broker.dead) != 1 {
			t.Errorf("dead letters %v, error %v", broker.dead, err)
		}
		s.end(t)
	})
}

// TestMisreadMessageEndsItsSession checks that a message that a wrong setting makes invalid stays in
// the subscription, with those behind it.
func TestMisreadMessageEndsItsSession(t *testing.T) {
	t.Parallel()
	withBroker(t, func(t *testing.T, broker *fakeBroker) {
		t.Helper()
		broker.send("session", "a", 1)
		for i := range 3 {
			broker.sendBody("session", fmt.Sprint("no event ", i), []byte("{}"))
		}
		stopping := make(chan func(), 1)
		s := start(t, broker, newReadModels(0), func(o *drain.Options) {
			o.Misread = func(context.Context, error) bool {
				stop := <-stopping
				stop()
				return true
			}
		})
		stopping <- s.stop
		if err := <-s.done; err != nil {
			t.Error(err)
		}
		if invalid := testkit.Metric(t, s.reg, "penstock_projector_invalid_messages_total"); invalid != 0 || len(broker.dead) != 0 {
			t.Errorf("%v messages count as dead-lettered, and %v are", invalid, broker.dead)
		}
	})
}

// TestSuspectsKeepNoEventWaiting checks that the events of a session with many suspects, and
// of a session behind many sessions with suspects, are processed.
func TestSuspectsKeepNoEventWaiting(t *testing.T) {
	t.Parallel()
	const before, sessions = 300, 20
	for name, sends := range map[string]func(*fakeBroker){
		"in the same session": func(b *fakeBroker) {
			for i := range before {
				b.sendBody("other", fmt.Sprint("no event ", i), []byte("{}"))
			}
		},
		"in other sessions": func(b *fakeBroker) {
			for i := range before {
				b.sendBody(fmt.Sprint("suspect-", i%sessions), fmt.Sprint("no event ", i), []byte("{}"))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withBroker(t, func(t *testing.T, broker *fakeBroker) {
				t.Helper()
				sends(broker)
				broker.send("other", "a", idsTo(6)...)
				m := newReadModels(time.Millisecond)
				s := start(t, broker, m, func(o *drain.Options) { o.Slots = 1 })
				s.settled(t, time.Minute)
				m.applies(t, map[string]int64{"a": 6})
				if len(broker.dead) != before {
					t.Errorf("%d dead letters, want %d", len(broker.dead), before)
				}
				s.end(t)
			})
		})
	}
}
