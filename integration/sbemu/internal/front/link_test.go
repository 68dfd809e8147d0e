package front_test

import (
	"fmt"
	"testing"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/rawclient"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// attachReceiver attaches a receiver and awaits the answer.
func attachReceiver(tb testing.TB, c *rawclient.Client, r rawclient.Receiver) {
	tb.Helper()
	check(tb, c.AttachReceiver(r))
	_, err := rawclient.Expect[*wire.Attach](c)
	check(tb, err)
}

// refused returns the answer to a refused attach, and the condition of the refusal.
func refused(tb testing.TB, c *rawclient.Client) (*wire.Attach, wire.Symbol) {
	tb.Helper()

	reply, err := rawclient.Expect[*wire.Attach](c)
	check(tb, err)

	detach, err := rawclient.Expect[*wire.Detach](c)
	check(tb, err)

	if !detach.Closed || detach.Error == nil {
		tb.Fatalf("detach %+v", detach)
	}

	return reply, detach.Error.Condition
}

func TestRefusedAttach(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		c := s.dial()

		reply, err := c.AttachSender(0, 0, "nothing")
		check(t, err)

		detach, err := rawclient.Expect[*wire.Detach](c)
		check(t, err)

		if reply.Target != nil || !detach.Closed || detach.Error.Condition != broker.CondNotFound {
			t.Fatalf("reply %+v, detach %+v", reply, detach)
		}

		for _, attach := range []struct {
			filter wire.Map
			why    wire.Symbol
		}{
			{nil, broker.CondNotAllowed},
			{wire.Map{{Key: wire.Symbol("com.microsoft:session-filter"), Value: wire.Described{Descriptor: uint64(0x137000000C), Value: int64(7)}}}, broker.CondInvalidField},
		} {
			check(t, c.Send(0, &wire.Detach{Handle: 0, Closed: true}))
			check(t, c.AttachReceiver(rawclient.Receiver{Handle: 0, Address: subscription, Filter: attach.filter}))

			if reply, why := refused(t, c); reply.Source != nil || why != attach.why {
				t.Fatalf("reply %+v, refused with %s, want %s", reply, why, attach.why)
			}
		}

		check(t, c.Send(0, &wire.Attach{Name: "tx", Handle: 1, Role: wire.RoleSender, Target: &wire.Terminus{Coordinator: true}}))

		if _, why := refused(t, c); why != broker.CondNotImplemented {
			t.Fatalf("refused with %s", why)
		}
	})
}

// TestTransferInPieces: a message over several frames, an aborted message, and a message
// that is too large.
func TestTransferInPieces(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		c := s.dial()
		_, err := c.AttachSender(0, 0, "q")
		check(t, err)

		payload := encode("pieces")

		part := rawclient.Transfer(0, 0, payload[:10])
		part.More = true
		c.Queue(wire.FrameAMQP, 0, part)
		c.Queue(wire.FrameAMQP, 0, &wire.Transfer{Payload: payload[10:20], More: true})
		c.Queue(wire.FrameAMQP, 0, &wire.Transfer{Payload: payload[20:]})

		aborted := rawclient.Transfer(0, 1, payload[:10])
		aborted.More = true
		c.Queue(wire.FrameAMQP, 0, aborted)
		c.Queue(wire.FrameAMQP, 0, &wire.Transfer{Aborted: true})
		c.Queue(wire.FrameAMQP, 0, rawclient.Transfer(0, 2, payload))
		check(t, c.Flush())

		for _, want := range []uint32{0, 2} {
			d, err := rawclient.Expect[*wire.Disposition](c)
			check(t, err)

			if d.First != want || d.Last != want || !d.Settled || d.State.Code != wire.CodeAccepted {
				t.Fatalf("disposition %+v of delivery %d", d, want)
			}
		}

		big := rawclient.Transfer(0, 3, make([]byte, 60<<10))
		big.More = true

		for range 5 {
			c.Queue(wire.FrameAMQP, 0, big)

			big = &wire.Transfer{More: true, Payload: big.Payload}
		}

		check(t, c.Flush())

		disposition, err := rawclient.Expect[*wire.Disposition](c)
		check(t, err)

		if disposition.First != 3 || disposition.State.Error.Condition != broker.CondMessageSize {
			t.Fatalf("disposition %+v", disposition)
		}

		detach, err := rawclient.Expect[*wire.Detach](c)
		check(t, err)

		if detach.Error.Condition != broker.CondMessageSize {
			t.Fatalf("detach %+v", detach)
		}
	})
}

func TestSettledTransferIsNotAnswered(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		c := s.dial()
		_, err := c.AttachSender(0, 0, "q")
		check(t, err)

		settled := rawclient.Transfer(0, 0, encode("1"))
		settled.Settled = true
		c.Queue(wire.FrameAMQP, 0, settled)
		c.Queue(wire.FrameAMQP, 0, rawclient.Transfer(0, 1, encode("2")))
		check(t, c.Flush())

		d, err := rawclient.Expect[*wire.Disposition](c)
		check(t, err)

		if d.First != 1 {
			t.Fatalf("disposition %+v", d)
		}
	})
}

// fill sends n messages to the queue q.
func fill(s *server, n int) {
	t := s.t
	t.Helper()

	c := s.dial()
	_, err := c.AttachSender(0, 0, "q")
	check(t, err)

	for i := range n {
		c.Queue(wire.FrameAMQP, 0, rawclient.Transfer(0, uint32(i), encode(fmt.Sprint(i))))
	}

	check(t, c.Flush())

	for acked := 0; acked < n; {
		d, err := rawclient.Expect[*wire.Disposition](c)
		check(t, err)

		acked += int(d.Last-d.First) + 1
	}

	check(t, c.Close())
}

func TestRangesAreSettled(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		fill(s, 10)

		c := s.dial()
		attachReceiver(t, c, rawclient.Receiver{Address: "q"})
		check(t, c.Credit(0, 0, 0, 10))

		for i := range 10 {
			tr, err := rawclient.Expect[*wire.Transfer](c)
			check(t, err)

			if tr.DeliveryID != uint32(i) || len(tr.DeliveryTag) != 16 {
				t.Fatalf("transfer %+v", tr)
			}
		}

		// A range far beyond the existing deliveries must not cost more work.
		check(t, c.Send(0, &wire.Disposition{Role: wire.RoleReceiver, First: 0, Last: 1 << 31, State: wire.Accepted}))

		for settled := 0; settled < 10; {
			d, err := rawclient.Expect[*wire.Disposition](c)
			check(t, err)

			if d.Role != wire.RoleSender || !d.Settled {
				t.Fatalf("disposition %+v", d)
			}

			settled += int(d.Last-d.First) + 1
		}
	})
}

// TestSettlementAfterALostLockGetsOnlyTheDetach: if a settlement arrives exactly when the
// session's lock ends, the detach is the only answer, in whichever order the two happen.
func TestSettlementAfterALostLockGetsOnlyTheDetach(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		for i := range 100 {
			id := fmt.Sprint("s", i)
			c := s.dial()
			_, err := c.AttachSender(0, 0, "events")
			check(t, err)

			b := wire.AppendValue(wire.AppendDescriptor(nil, wire.CodeProperties), []any{"1", nil, nil, nil, nil, nil, nil, nil, nil, nil, id})
			check(t, c.Send(0, rawclient.Transfer(0, 0, b)))
			_, err = rawclient.Expect[*wire.Disposition](c)
			check(t, err)

			attachReceiver(t, c, rawclient.Receiver{Handle: 1, Address: subscription, Filter: rawclient.NamedSession(id)})
			check(t, c.Credit(0, 1, 0, 1))
			_, err = rawclient.Expect[*wire.Transfer](c)
			check(t, err)

			s.Faults.SetLatency(broker.DefaultLockDuration, 0)
			check(t, c.Send(0, &wire.Disposition{Role: wire.RoleReceiver, State: wire.Accepted}))

			d, err := rawclient.Expect[*wire.Detach](c)
			check(t, err)

			if d.Error.Condition != broker.CondSessionLockLost {
				t.Fatalf("detach %+v", d)
			}

			s.Faults.SetLatency(0, 0)
			check(t, c.Send(0, &wire.Close{}))
			_, err = rawclient.Expect[*wire.Close](c)
			check(t, err)
		}
	})
}

// TestFramesAfterTheSessionsEnd: the server ignores a detach after the session's end,
// which the SDK sends when it cancels an accept. Other frames end the connection.
func TestFramesAfterTheSessionsEnd(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		c := s.dial()
		_, err := c.AttachSender(0, 0, "q")
		check(t, err)
		check(t, c.Send(0, &wire.End{}))
		_, err = rawclient.Expect[*wire.End](c)
		check(t, err)
		check(t, c.Send(0, &wire.Detach{Handle: 0, Closed: true}))
		check(t, c.Send(0, &wire.End{}))

		check(t, c.Begin(0))
		check(t, c.Send(1, rawclient.CreditFlow(0, 0, 1)))

		closed, err := rawclient.Expect[*wire.Close](c)
		check(t, err)

		if closed.Error == nil || closed.Error.Condition != broker.CondNotFound {
			t.Fatalf("closed for %+v", closed.Error)
		}

		s.works()
	})
}
