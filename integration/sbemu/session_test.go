package sbemu_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

func TestSessionsInOrder(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		c := e.client()
		s := e.sender(c, "events")

		for i := range 5 {
			e.send(s, "a", fmt.Sprintf("a%d", i))
			e.send(s, "b", fmt.Sprintf("b%d", i))
		}

		for _, session := range []string{"a", "b"} {
			r := e.acceptNext(c)
			equal(t, "session", r.SessionID(), session)

			if left := time.Until(r.LockedUntil()); left < 29*time.Second || left > 30*time.Second {
				t.Fatalf("lock lasts %s", left)
			}

			msgs := e.receive(r, 5)
			for i, m := range msgs {
				equal(t, "message", m.MessageID, fmt.Sprintf("%s%d", session, i))
				equal(t, "body", string(m.Body), m.MessageID)
				equal(t, "delivery count", m.DeliveryCount, 1)
				must(t, r.CompleteMessage(e.ctx, m, nil))
			}

			e.empty(r)
			must(t, r.Close(e.ctx))
		}

		counts, err := e.Counts(queue)
		must(t, err)
		equal(t, "counts", counts, sbemu.Counts{})
	})
}

func TestSessionAcceptTimesOut(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		c := e.client()
		start := time.Now()

		_, err := c.AcceptNextSessionForSubscription(e.ctx, "events", "projector", nil)
		code(t, err, azservicebus.CodeTimeout)
		equal(t, "wait without a deadline", time.Since(start), sbemu.DefaultAcceptTimeout)

		ctx, cancel := context.WithTimeout(e.ctx, 10*time.Second)
		defer cancel()

		start = time.Now()

		_, err = c.AcceptNextSessionForSubscription(ctx, "events", "projector", nil)
		code(t, err, azservicebus.CodeTimeout)

		if waited := time.Since(start); waited < 9*time.Second || waited > 10*time.Second {
			t.Fatalf("waited %s for a deadline of 10s", waited)
		}
	})
}

func TestSessionAcceptWaitsForAMessage(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		c := e.client()
		accepted := make(chan *azservicebus.SessionReceiver)

		go func() {
			r, err := c.AcceptNextSessionForSubscription(e.ctx, "events", "projector", nil)
			if err != nil {
				t.Error(err)
			}

			accepted <- r
		}()

		wait(5 * time.Second)
		e.send(e.sender(e.client(), "events"), "late", "1")
		equal(t, "session", (<-accepted).SessionID(), "late")
	})
}

func TestCancelledSessionAcceptLeavesTheQueue(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		impatient, c := e.client(), e.client()
		ctx, cancel := context.WithCancel(e.ctx)
		done := make(chan error)

		go func() {
			_, err := impatient.AcceptNextSessionForSubscription(ctx, "events", "projector", nil)
			done <- err
		}()

		wait(time.Second)
		cancel()

		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled accept: %v", err)
		}

		e.send(e.sender(c, "events"), "a", "1")
		equal(t, "session", e.acceptNext(c).SessionID(), "a")
	})
}

func TestSessionLockedIsRefused(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		first, second := e.client(), e.client()
		r := e.accept(first, "a")

		_, err := second.AcceptSessionForSubscription(e.ctx, "events", "projector", "a", nil)
		condition(t, err, "com.microsoft:session-cannot-be-locked")

		must(t, r.Close(e.ctx))
		equal(t, "session", e.accept(second, "a").SessionID(), "a")
	})
}

func TestSessionNeedsASessionReceiver(t *testing.T) {
	cfg := sbemu.Default()
	cfg.Queues = []sbemu.Queue{{Name: "plain"}}

	virtual(t, cfg, func(e *env) {
		t := e.t

		c := e.client()

		r, err := c.NewReceiverForSubscription("events", "projector", nil)
		must(t, err)

		_, err = r.ReceiveMessages(e.ctx, 1, nil)
		condition(t, err, "amqp:not-allowed")

		if !strings.Contains(err.Error(), "It is not possible for an entity that requires sessions to create a non-sessionful message receiver.") {
			t.Fatal(err)
		}

		_, err = e.client().AcceptSessionForQueue(e.ctx, "plain", "a", nil)
		condition(t, err, "amqp:not-allowed")
	})
}

func TestSessionEmptyIDIsASession(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		c := e.client()
		empty := ""
		m := message("1", "")
		m.SessionID = &empty
		must(t, e.sender(c, "events").SendMessage(e.ctx, m, nil))

		r := e.accept(c, "")
		equal(t, "session", r.SessionID(), "")
		equal(t, "message's session", *e.receive(r, 1)[0].SessionID, "")
	})
}

func TestSessionState(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		c := e.client()
		r := e.accept(c, "a")

		state, err := r.GetSessionState(e.ctx, nil)
		must(t, err)

		if state != nil {
			t.Fatalf("state is %q at first", state)
		}

		must(t, r.SetSessionState(e.ctx, []byte("hello"), nil))
		must(t, r.Close(e.ctx))

		r = e.accept(c, "a")
		state, err = r.GetSessionState(e.ctx, nil)
		must(t, err)
		equal(t, "state", string(state), "hello")
		must(t, r.SetSessionState(e.ctx, nil, nil))
		must(t, r.Close(e.ctx))

		sessions, err := e.Sessions(queue)
		must(t, err)
		equal(t, "sessions that are left", len(sessions), 0)
	})
}

func TestSessionLockExpires(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		slow, other := e.client(), e.client()
		s := e.sender(other, "events")
		e.send(s, "a", "1", "2", "3")

		held := e.acceptNext(slow)
		msgs := e.receive(held, 2)
		taken := make(chan time.Time)

		go func() {
			r := e.acceptNext(other)
			taken <- time.Now()

			// Delivered messages count a delivery, others do not.
			for i, m := range e.receive(r, 3) {
				if want := uint32(2 - i/2); m.MessageID != fmt.Sprint(i+1) || m.DeliveryCount != want {
					t.Errorf("message %s has count %d, want %d", m.MessageID, m.DeliveryCount, want)
				}
			}

			close(taken)
		}()

		if late := (<-taken).Sub(held.LockedUntil()); late < 0 || late > 10*time.Millisecond {
			t.Errorf("taken over %s after the end of the lock", late)
		}

		<-taken

		// The SDK attaches again to settle, but another receiver has the session.
		condition(t, held.CompleteMessage(e.ctx, msgs[0], nil), "com.microsoft:session-cannot-be-locked")
	})
}

func TestSessionLockIsRenewed(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		c := e.client()
		e.send(e.sender(c, "events"), "a", "1")

		r := e.acceptNext(c)
		m := e.receive(r, 1)[0]

		for range 10 {
			wait(15 * time.Second)
			must(t, r.RenewSessionLock(e.ctx, nil))

			if left := time.Until(r.LockedUntil()); left < 29*time.Second || left > 30*time.Second {
				t.Fatalf("renewed lock lasts %s", left)
			}
		}

		must(t, r.CompleteMessage(e.ctx, m, nil))
		e.empty(r)
	})
}

func TestSessionCloseCountsNoDelivery(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		c := e.client()
		e.send(e.sender(c, "events"), "a", "1", "2")

		for range 15 { // more often than the maximum delivery count
			r := e.acceptNext(c)
			msgs := e.receive(r, 2)
			equal(t, "order", fmt.Sprint(ids(msgs)), "[1 2]")
			equal(t, "delivery count", msgs[0].DeliveryCount, 1)
			must(t, r.Close(e.ctx))
		}
	})
}

func TestSessionIsReleasedByADroppedConnection(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		dropped, other := e.client(), e.client()
		e.send(e.sender(other, "events"), "a", "1", "2")

		e.receive(e.acceptNext(dropped), 2)

		n := e.DropConnections(func(c sbemu.Connection) bool { return slices.Contains(c.Receives, queue) })
		equal(t, "dropped connections", n, 1)

		msgs := e.receive(e.acceptNext(other), 2)
		equal(t, "order", fmt.Sprint(ids(msgs)), "[1 2]")
		equal(t, "delivery count", msgs[0].DeliveryCount, 1)
	})
}

func TestSessionLockIsLostOnRequest(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		c := e.client()
		e.send(e.sender(c, "events"), "a", "1")

		r := e.acceptNext(c)
		e.receive(r, 1)

		must(t, e.LoseSessionLock(queue, "a"))

		if err := e.LoseSessionLock(queue, "a"); !errors.Is(err, sbemu.ErrNotLocked) {
			t.Fatal(err)
		}

		ctx, cancel := context.WithTimeout(e.ctx, time.Second)
		defer cancel()

		// The SDK reports a lost link as no messages, and attaches again.
		if got, err := r.ReceiveMessages(ctx, 1, nil); len(got) > 0 || err != nil {
			t.Fatalf("receive after the lost lock: %v, %v", ids(got), err)
		}

		equal(t, "delivery count", e.receive(r, 1)[0].DeliveryCount, 2)
	})
}

func TestSessionsAreListed(t *testing.T) {
	cfg := sbemu.Config{Queues: []sbemu.Queue{{Name: "q", RequiresSession: true}}}

	virtual(t, cfg, func(e *env) {
		t := e.t

		c := e.client()
		s := e.sender(c, "q")

		var want []string

		for i := range 120 {
			id := fmt.Sprintf("s%03d", i)
			want = append(want, id)
			e.send(s, id, "1")
		}

		r, err := c.AcceptSessionForQueue(e.ctx, "q", "with-state", nil)
		must(t, err)
		must(t, r.SetSessionState(e.ctx, []byte("x"), nil))
		must(t, r.Close(e.ctx))

		list := func(o *azservicebus.ListSessionsOptions) []string {
			var got []string

			for pager := c.NewListSessionsForQueuePager("q", o); pager.More(); {
				page, err := pager.NextPage(e.ctx)
				must(t, err)

				got = append(got, page.Sessions...)
			}

			slices.Sort(got)

			return got
		}

		equal(t, "sessions", fmt.Sprint(list(nil)), fmt.Sprint(append(want, "with-state")))

		before, after := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		equal(t, "sessions by state", fmt.Sprint(list(&azservicebus.ListSessionsOptions{SessionStateUpdatedAfter: &before})), "[with-state]")
		equal(t, "sessions by later state", len(list(&azservicebus.ListSessionsOptions{SessionStateUpdatedAfter: &after})), 0)
	})
}
