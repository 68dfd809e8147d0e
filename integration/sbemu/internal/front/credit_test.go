package front_test

import (
	"testing"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/rawclient"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

func TestDrain(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		fill(s, 3)

		c := s.dial()
		attachReceiver(t, c, rawclient.Receiver{Address: "q"})

		flow := rawclient.CreditFlow(0, 0, 10)
		flow.Drain = true
		check(t, c.Send(0, flow))

		transfers(t, c, 3)

		drained(t, c, 10)
	})
}

// transfers reads n transfers.
func transfers(tb testing.TB, c *rawclient.Client, n int) {
	tb.Helper()

	for range n {
		_, err := rawclient.Expect[*wire.Transfer](c)
		check(tb, err)
	}
}

// drained reads the flow that ends a drain, and checks that all credit is used up.
func drained(tb testing.TB, c *rawclient.Client, credit uint32) {
	tb.Helper()

	f, err := rawclient.Expect[*wire.Flow](c)
	check(tb, err)

	if f.LinkCredit != 0 || f.DeliveryCount != credit || !f.Drain {
		tb.Fatalf("flow %+v", f)
	}
}

// TestSessionWindow: the server sends no more transfers than the client's session window
// allows.
func TestSessionWindow(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		fill(s, 5)

		c := s.dial()
		attachReceiver(t, c, rawclient.Receiver{Address: "q"})

		flow := rawclient.CreditFlow(0, 0, 5)
		flow.IncomingWindow = 2
		flow.Echo = true
		check(t, c.Send(0, flow))

		transfers(t, c, 2)

		echo, err := rawclient.Expect[*wire.Flow](c)
		check(t, err)

		if echo.NextOutgoingID != 2 || echo.LinkCredit != 3 {
			t.Fatalf("flow %+v", echo)
		}

		check(t, c.Send(0, &wire.Flow{HasNextIncomingID: true, NextIncomingID: 2, IncomingWindow: 100}))

		transfers(t, c, 3)
	})
}

// TestDrainWaitsForTheWindow: messages of a drain that do not fit the window are sent
// when there is room. Only then is the rest of the credit used up.
func TestDrainWaitsForTheWindow(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		fill(s, 5)

		c := s.dial()
		attachReceiver(t, c, rawclient.Receiver{Address: "q"})

		flow := rawclient.CreditFlow(0, 0, 10)
		flow.IncomingWindow = 2
		flow.Drain = true
		check(t, c.Send(0, flow))

		transfers(t, c, 2)

		check(t, c.Send(0, &wire.Flow{HasNextIncomingID: true, NextIncomingID: 2, IncomingWindow: 100}))

		transfers(t, c, 3)

		drained(t, c, 10)
	})
}

// TestCreditIsAcceptedBeforeTheSession: a client can grant credit while it waits for a
// session. The first message follows the session's attach.
func TestCreditIsAcceptedBeforeTheSession(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		c := s.dial()
		check(t, c.AttachReceiver(rawclient.Receiver{Address: subscription, Filter: rawclient.AnySession()}))
		check(t, c.Credit(0, 0, 0, 1))

		// The server echoes the flow after it has the credit.
		check(t, c.Send(0, &wire.Flow{Echo: true, HasNextIncomingID: true, IncomingWindow: 100}))
		_, err := rawclient.Expect[*wire.Flow](c)
		check(t, err)

		sender := s.dial()
		_, err = sender.AttachSender(0, 0, "events")
		check(t, err)

		b := wire.AppendValue(wire.AppendDescriptor(nil, wire.CodeProperties), []any{"1", nil, nil, nil, nil, nil, nil, nil, nil, nil, "a"})
		check(t, sender.Send(0, rawclient.Transfer(0, 0, b)))

		_, err = rawclient.Expect[*wire.Attach](c)
		check(t, err)
		_, err = rawclient.Expect[*wire.Transfer](c)
		check(t, err)
	})
}

// TestCreditCountsFromTheInitialDelivery: credit counts from the delivery count with
// which the client begins.
func TestCreditCountsFromTheInitialDelivery(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		c := s.dial()
		check(t, c.Send(0, &wire.Attach{
			Name: "late", Role: wire.RoleSender, InitialDeliveryCount: 5000, Target: &wire.Terminus{Address: "q"},
		}))
		_, err := rawclient.Expect[*wire.Attach](c)
		check(t, err)

		f, err := rawclient.Expect[*wire.Flow](c)
		check(t, err)

		if f.DeliveryCount != 5000 || f.LinkCredit == 0 {
			t.Fatalf("flow %+v", f)
		}
	})
}

// TestRepliesWithoutCreditAreBounded: a client that keeps sending requests and takes no
// replies loses its connection.
func TestRepliesWithoutCreditAreBounded(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		c := s.dial()
		_, err := c.AttachSender(0, 0, "q")
		check(t, err)

		body := wire.AppendBinary(wire.AppendDescriptor(nil, wire.CodeData), make([]byte, 60<<10))
		for i := range uint32(100) {
			check(t, c.Send(0, rawclient.Transfer(0, i, body)))
			_, err = rawclient.Expect[*wire.Disposition](c)
			check(t, err)
		}

		_, err = c.AttachSender(0, 10, "q/$management")
		check(t, err)
		attachReceiver(t, c, rawclient.Receiver{Handle: 11, Address: "q/$management", Target: "replies", Settled: true})

		n := &node{Client: c, t: t}
		ended := false

		for range 20 { // with replies of 6 MB each
			check(t, n.ask("peek-message", nil, wire.Map{
				{Key: "from-sequence-number", Value: int64(0)}, {Key: "message-count", Value: int32(100)},
			}))

			if _, err := rawclient.Expect[*wire.Disposition](c); err != nil {
				ended = true

				break
			}
		}

		if !ended {
			t.Fatal("120 MB of replies are kept")
		}

		s.works()
	})
}
