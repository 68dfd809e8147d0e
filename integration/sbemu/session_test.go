package sbemu_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

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
