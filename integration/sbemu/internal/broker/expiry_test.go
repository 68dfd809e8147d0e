package broker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// scene is a queue with a sender of messages of the session "a".
type scene struct {
	*broker.Queue

	t           *testing.T
	destination *broker.Destination
}

func (s *scene) send(id string) {
	s.t.Helper()

	if err := s.destination.Send([]*message.Message{encode(s.t, id, "a")}); err != nil {
		s.t.Fatal(err)
	}
}

// inScene runs a test in virtual time.
func inScene(t *testing.T, cfg broker.QueueConfig, ttl time.Duration, test func(q *scene)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ns := broker.NewNamespace()
		defer ns.Close()

		if err := ns.CreateQueue(broker.StandaloneConfig{
			Name: "q", QueueConfig: cfg, IntakeConfig: broker.IntakeConfig{DefaultTTL: ttl},
		}); err != nil {
			t.Fatal(err)
		}

		d := ns.Destination("q")
		test(&scene{Queue: d.Direct(), t: t, destination: d})
	})
}

func refused(t *testing.T, err *wire.Error, want wire.Symbol) {
	t.Helper()

	if err == nil || err.Condition != want {
		t.Fatalf("error is %v, want %s", err, want)
	}
}

// TestSessionLocksEndByTheClock: operations that rely on a session's lock are refused as
// soon as the lock ends, even if the alarm has not fired yet.
func TestSessionLocksEndByTheClock(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct {
		use  func(q *scene, h *holder) *wire.Error
		want wire.Symbol // "": it succeeds
	}{
		"settle": {func(_ *scene, h *holder) *wire.Error {
			return h.receiver.Settle(h.held[0].Item, h.held[0].Stamp.LockToken, broker.Outcome{})
		}, broker.CondSessionLockLost},
		"settle by token": {func(q *scene, h *holder) *wire.Error {
			return q.SettleToken(h.receiver, h.held[0].Stamp.LockToken, broker.Outcome{})
		}, broker.CondSessionLockLost},
		"renew": {func(_ *scene, h *holder) *wire.Error {
			_, err := h.receiver.RenewSession("a")

			return err
		}, broker.CondSessionLockLost},
		"state": {func(_ *scene, h *holder) *wire.Error {
			_, err := h.receiver.SessionState("a")

			return err
		}, broker.CondSessionLockLost},
		"set state": {func(_ *scene, h *holder) *wire.Error {
			return h.receiver.SetSessionState("a", []byte("x"))
		}, broker.CondSessionLockLost},
		"receive deferred": {func(q *scene, h *holder) *wire.Error {
			_, err := q.ReceiveDeferred(h.receiver, []int64{h.held[1].Stamp.SequenceNumber}, broker.PeekLock)

			return err
		}, broker.CondMessageNotFound},
		"accept by another": {func(q *scene, _ *holder) *wire.Error {
			return q.AcceptSession("a", &consumer{}, broker.PeekLock).Err
		}, ""},
		"accept of the next": {func(q *scene, _ *holder) *wire.Error {
			err := wire.Errorf("waits", "there is no session to accept")

			q.AcceptNextSession(&consumer{}, broker.PeekLock, time.Minute, func(g broker.Grant) { err = g.Err })

			return err
		}, ""},
		"send": {func(q *scene, _ *holder) *wire.Error {
			q.send("3")

			return nil
		}, ""},
		"credit": {func(_ *scene, h *holder) *wire.Error {
			h.receiver.Resume()

			return nil
		}, ""},
		"close": {func(_ *scene, h *holder) *wire.Error {
			h.receiver.Close()

			return nil
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := broker.QueueConfig{RequiresSession: true, LockDuration: lock}
			inScene(t, cfg, 0, func(q *scene) {
				t := q.t

				q.send("1")
				q.send("2")

				h := &holder{consumer: &consumer{credit: 2}}
				h.receiver = q.AcceptSession("a", h, broker.PeekLock).Receiver
				h.receiver.Resume()

				if err := h.receiver.Settle(h.held[1].Item, h.held[1].Stamp.LockToken, broker.Outcome{Verdict: broker.Defer}); err != nil {
					t.Fatal(err)
				}

				h.credit = 1

				q.Stun()
				<-time.After(lock)

				if err := tt.use(q, h); tt.want != "" {
					refused(t, err, tt.want)
				} else if err != nil {
					t.Fatal(err)
				}

				if h.detached == nil || h.detached.Condition != broker.CondSessionLockLost || len(h.held) != 2 {
					t.Fatalf("detached with %v, given %d messages", h.detached, len(h.held))
				}

				// The delivery was counted.
				if got := q.Peek(nil, 0, 1)[0]; got.Message.ID != "1" || got.Stamp.DeliveryCount != 1 {
					t.Fatalf("left is %+v", got)
				}
			})
		})
	}
}

// TestMessageLocksEndByTheClock is the same without sessions.
func TestMessageLocksEndByTheClock(t *testing.T) {
	t.Parallel()

	for name, use := range map[string]func(q *broker.Queue, r *broker.Receiver, d broker.Delivery) *wire.Error{
		"settle": func(_ *broker.Queue, r *broker.Receiver, d broker.Delivery) *wire.Error {
			return r.Settle(d.Item, d.Stamp.LockToken, broker.Outcome{})
		},
		"settle by token": func(q *broker.Queue, _ *broker.Receiver, d broker.Delivery) *wire.Error {
			return q.SettleToken(nil, d.Stamp.LockToken, broker.Outcome{})
		},
		"renew": func(q *broker.Queue, _ *broker.Receiver, d broker.Delivery) *wire.Error {
			_, err := q.RenewLocks([]wire.UUID{d.Stamp.LockToken})

			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inScene(t, broker.QueueConfig{LockDuration: lock}, 0, func(q *scene) {
				t := q.t

				q.send("1")

				c := &consumer{credit: 1}

				r, err := q.Receive(c, broker.PeekLock)
				if err != nil {
					t.Fatal(err)
				}

				r.Resume()
				q.Stun()
				<-time.After(lock)
				refused(t, use(q.Queue, r, c.held[0]), broker.CondMessageLockLost)
			})
		})
	}
}

// TestTimeToLiveWaitsForTheLock: a locked message does not expire before its lock ends,
// and expires as soon as the lock ends.
func TestTimeToLiveWaitsForTheLock(t *testing.T) {
	cfg := broker.QueueConfig{RequiresSession: true, LockDuration: time.Minute, DeadLetterExpired: true}
	inScene(t, cfg, 10*time.Second, func(q *scene) {
		t := q.t

		for _, id := range []string{"abandoned", "released", "expired", "left"} {
			q.send(id)
		}

		h := &consumer{credit: 3}
		r := q.AcceptSession("a", h, broker.PeekLock).Receiver
		r.Resume()
		<-time.After(11 * time.Second)
		synctest.Wait()

		if got := q.Counts(); got != (broker.Counts{Active: 3, Locked: 3, DeadLettered: 1}) {
			t.Fatalf("counts are %+v", got)
		}

		if got := q.Peek(nil, 0, 2); len(got) != 2 {
			t.Fatalf("a peek shows %d of the locked messages", len(got))
		}

		for i, verdict := range []broker.Verdict{broker.Abandon, broker.Release} {
			if err := r.Settle(h.held[i].Item, h.held[i].Stamp.LockToken, broker.Outcome{Verdict: verdict}); err != nil {
				t.Fatal(err)
			}
		}

		if got := q.Counts(); got != (broker.Counts{Active: 1, Locked: 1, DeadLettered: 3}) {
			t.Fatalf("counts are %+v", got)
		}

		<-time.After(time.Minute)
		synctest.Wait()

		// The session was not offered to the waiter, because it was empty.
		if got := q.Counts(); got != (broker.Counts{DeadLettered: 4}) || len(q.SessionInfos()) > 0 {
			t.Fatalf("counts are %+v, sessions %+v", got, q.SessionInfos())
		}
	})
}

// TestDeferredMessagesExpireWhenReceived: a deferred message whose time to live has ended
// stays until it is received (documented: message deferral).
func TestDeferredMessagesExpireWhenReceived(t *testing.T) {
	cfg := broker.QueueConfig{RequiresSession: true, LockDuration: 5 * time.Minute, DeadLetterExpired: true}
	inScene(t, cfg, 10*time.Second, func(q *scene) {
		t := q.t

		q.send("1")

		c := &consumer{credit: 1}
		r := q.AcceptSession("a", c, broker.PeekLock).Receiver
		r.Resume()

		d := c.held[0]
		if err := r.Settle(d.Item, d.Stamp.LockToken, broker.Outcome{Verdict: broker.Defer}); err != nil {
			t.Fatal(err)
		}

		<-time.After(time.Minute)
		synctest.Wait()

		if got := q.Counts(); got != (broker.Counts{Deferred: 1}) || len(q.Peek(r, 0, 1)) != 1 {
			t.Fatalf("counts are %+v, peeked %+v", got, q.Peek(r, 0, 1))
		}

		_, err := q.ReceiveDeferred(r, []int64{d.Stamp.SequenceNumber}, broker.PeekLock)
		refused(t, err, broker.CondMessageNotFound)

		if got := q.Counts(); got != (broker.Counts{DeadLettered: 1}) {
			t.Fatalf("counts are %+v", got)
		}
	})
}
