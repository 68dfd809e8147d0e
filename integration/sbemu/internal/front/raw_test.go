package front_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/access"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/front"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/rawclient"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

const subscription = "events/Subscriptions/projector"

// pipes is a listener of in-memory connections.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}

	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

// server is a server with a topic "events" with the session subscription
// "projector", and a queue "q".
type server struct {
	*front.Server

	t     testing.TB
	pipes pipes
}

func start(tb testing.TB) *server {
	tb.Helper()

	ns := broker.NewNamespace()

	for _, err := range []error{
		ns.CreateTopic(broker.TopicConfig{Name: "events", Subscriptions: []broker.SubscriptionConfig{
			{Name: "projector", QueueConfig: broker.QueueConfig{RequiresSession: true}},
		}}),
		ns.CreateQueue(broker.StandaloneConfig{Name: "q"}),
	} {
		if err != nil {
			tb.Fatal(err)
		}
	}

	s := &server{
		Server: front.NewServer(front.Options{
			Namespace:     ns,
			Policies:      []access.Policy{{Name: "p", Key: "k", Rights: access.All}},
			AcceptTimeout: time.Minute,
		}),
		t:     tb,
		pipes: make(pipes),
	}
	done := make(chan struct{})

	go func() {
		defer close(done)

		_ = s.Serve(s.pipes)
	}()

	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}

		ns.Close()
		<-done
	})

	return s
}

func (s *server) pipe() net.Conn {
	client, srv := net.Pipe()
	s.pipes <- srv

	return client
}

// dial returns an authorized client with a session on channel 0.
func (s *server) dial() *rawclient.Client {
	s.t.Helper()

	nc := s.pipe()
	s.t.Cleanup(func() { _ = nc.Close() })

	c, err := rawclient.Open(nc)
	check(s.t, err)

	code, err := c.Authorize(0, "p", "k")
	check(s.t, err)

	if code != 202 {
		s.t.Fatalf("status of put-token is %d", code)
	}

	check(s.t, c.Begin(0))

	return c
}

func check(tb testing.TB, err error) {
	tb.Helper()

	if err != nil {
		tb.Fatal(err)
	}
}

// works checks that the server serves others.
func (s *server) works() {
	s.t.Helper()

	c := s.dial()
	_, err := c.AttachSender(0, 0, "q")
	check(s.t, err)
	check(s.t, c.Send(0, rawclient.Transfer(0, 0, encode("x"))))

	d, err := rawclient.Expect[*wire.Disposition](c)
	check(s.t, err)

	if d.State.Code != wire.CodeAccepted {
		s.t.Fatalf("state is %+v", d.State)
	}

	check(s.t, c.Close())
}

// encode encodes a message with an id.
func encode(id string) []byte {
	b := wire.AppendValue(wire.AppendDescriptor(nil, wire.CodeProperties), []any{id})

	return wire.AppendBinary(wire.AppendDescriptor(b, wire.CodeData), []byte("body"))
}

func inBubble(t *testing.T, test func(s *server)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		test(start(t))
	})
}

func TestMalformedPeersLoseTheirConnection(t *testing.T) {
	frame := func(body ...byte) []byte {
		b, at := wire.BeginFrame(nil, wire.FrameAMQP, 0)

		return wire.EndFrame(append(b, body...), at)
	}

	for name, bytes := range map[string][]byte{
		"garbage":               []byte("GET / HTTP/1.1\r\n\r\n"),
		"size below the header": {0, 0, 0, 1, 2, 0, 0, 0},
		"size over the limit":   {0x7f, 0xff, 0xff, 0xff, 2, 0, 0, 0},
		"offset over the size":  {0, 0, 0, 8, 9, 0, 0, 0},
		"unknown frame type":    {0, 0, 0, 9, 2, 7, 0, 0, 0},
		"empty composite":       frame(0),
		"unknown performative":  frame(0, 0x53, 0x99, 0x45),
		"deep nesting":          frame(append([]byte{0, 0x53, 0x10, 0xc0, 250, 1}, make([]byte, 249)...)...),
		"huge list":             frame(0, 0x53, 0x11, 0xd0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"transfer without link": frame((&wire.Transfer{Handle: 9}).Append(nil)...),
		"second begin":          frame((&wire.Begin{}).Append(nil)...),
		"handle over the limit": frame((&wire.Attach{Name: "x", Handle: 300, Target: &wire.Terminus{}}).Append(nil)...),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *server) {
				t := s.t

				c := s.dial()
				_, err := c.Net.Write(bytes)
				check(t, err)

				closed, err := rawclient.Expect[*wire.Close](c)
				check(t, err)

				if closed.Error == nil {
					t.Fatal("closed without an error")
				}

				s.works()
			})
		})
	}
}

func TestHandshakeRefusals(t *testing.T) {
	for name, hello := range map[string][]byte{
		"another protocol": []byte("GET / HTTP/1.1\r\n\r\n"),
		"TLS":              wire.ProtocolHeader(wire.ProtocolTLS),
		"another version":  {'A', 'M', 'Q', 'P', 3, 0, 9, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *server) {
				t := s.t

				nc := s.pipe()
				_, err := nc.Write(hello)
				check(t, err)

				// The server says what it speaks, and closes.
				got, err := io.ReadAll(nc)
				check(t, err)

				if !bytes.Equal(got, wire.ProtocolHeader(wire.ProtocolSASL)) {
					t.Fatalf("answer is % x", got)
				}

				s.works()
			})
		})
	}
}

func TestPlainAuthentication(t *testing.T) {
	for response, ok := range map[string]bool{"\x00p\x00k": true, "\x00p\x00wrong": false, "nonsense": false} {
		t.Run(fmt.Sprintf("%q", response), func(t *testing.T) {
			inBubble(t, func(s *server) {
				t := s.t

				c := rawclient.New(s.pipe())
				check(t, c.Protocol(wire.ProtocolSASL))

				_, err := rawclient.Expect[*wire.SASLMechanisms](c)
				check(t, err)
				c.Queue(wire.FrameSASL, 0, &wire.SASLInit{Mechanism: "PLAIN", Response: []byte(response)})
				check(t, c.Flush())

				outcome, err := rawclient.Expect[*wire.SASLOutcome](c)
				check(t, err)

				if (outcome.Code == 0) != ok {
					t.Fatalf("outcome is %d", outcome.Code)
				}

				if !ok {
					return
				}

				// The key grants its rights without a token.
				check(t, c.Protocol(wire.ProtocolAMQP))
				check(t, c.Send(0, &wire.Open{ContainerID: "raw"}))
				_, err = rawclient.Expect[*wire.Open](c)
				check(t, err)
				check(t, c.Begin(0))
				_, err = c.AttachSender(0, 0, "q")
				check(t, err)
			})
		})
	}
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

		check(t, c.Send(0, &wire.Detach{Handle: 0, Closed: true}))
		check(t, c.AttachReceiver(rawclient.Receiver{Handle: 0, Address: subscription}))

		attach, err := rawclient.Expect[*wire.Attach](c)
		check(t, err)

		detach, err = rawclient.Expect[*wire.Detach](c)
		check(t, err)

		if attach.Source != nil || detach.Error.Condition != broker.CondNotAllowed {
			t.Fatalf("reply %+v, detach %+v", attach, detach)
		}

		check(t, c.Send(0, &wire.Attach{Name: "tx", Handle: 1, Role: wire.RoleSender, Target: &wire.Terminus{Coordinator: true}}))
		_, err = rawclient.Expect[*wire.Attach](c)
		check(t, err)

		detach, err = rawclient.Expect[*wire.Detach](c)
		check(t, err)

		if detach.Error.Condition != broker.CondNotImplemented {
			t.Fatalf("detach %+v", detach)
		}
	})
}

func TestUnauthorizedAttach(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		c, err := rawclient.Open(s.pipe())
		check(t, err)

		token := func(resource string, until time.Duration) string {
			return rawclient.Token("p", "k", resource, time.Now().Add(until))
		}

		for i, put := range []struct {
			token string
			want  int32
		}{
			{token("amqp://localhost/q", time.Minute), 202},
			{token("amqp://localhost/q", -time.Minute), 401},
			{token("amqp://localhost/other", time.Minute), 401},
			{rawclient.Token("p", "wrong", "amqp://localhost/q", time.Now().Add(time.Minute)), 401},
			{"nonsense", 401},
		} {
			code, err := c.PutToken(0, "amqp://localhost/q", put.token)
			check(t, err)

			if code != put.want {
				t.Errorf("status of token %d is %d, want %d", i, code, put.want)
			}
		}

		check(t, c.Begin(0))
		_, err = c.AttachSender(0, 0, "q")
		check(t, err)

		reply, err := c.AttachSender(0, 1, "events")
		check(t, err)

		detach, err := rawclient.Expect[*wire.Detach](c)
		check(t, err)

		if reply.Target != nil || detach.Error.Condition != broker.CondUnauthorized {
			t.Fatalf("reply %+v, detach %+v", reply, detach)
		}

		// A token that expired grants nothing.
		<-time.After(2 * time.Minute)

		_, err = c.AttachSender(0, 2, "q")
		check(t, err)

		if detach, err = rawclient.Expect[*wire.Detach](c); err != nil || detach.Error.Condition != broker.CondUnauthorized {
			t.Fatal(detach, err)
		}
	})
}

// TestTransferInPieces: a message over several frames, one that is aborted,
// and one that is too large.
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
		check(t, c.AttachReceiver(rawclient.Receiver{Address: "q"}))
		_, err := rawclient.Expect[*wire.Attach](c)
		check(t, err)
		check(t, c.Credit(0, 0, 0, 10))

		for i := range 10 {
			tr, err := rawclient.Expect[*wire.Transfer](c)
			check(t, err)

			if tr.DeliveryID != uint32(i) || len(tr.DeliveryTag) != 16 {
				t.Fatalf("transfer %+v", tr)
			}
		}

		// Far more than there are must not be more work.
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

func TestDrain(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		fill(s, 3)

		c := s.dial()
		check(t, c.AttachReceiver(rawclient.Receiver{Address: "q"}))
		_, err := rawclient.Expect[*wire.Attach](c)
		check(t, err)

		flow := rawclient.CreditFlow(0, 0, 10)
		flow.Drain = true
		check(t, c.Send(0, flow))

		for range 3 {
			_, err := rawclient.Expect[*wire.Transfer](c)
			check(t, err)
		}

		f, err := rawclient.Expect[*wire.Flow](c)
		check(t, err)

		if f.LinkCredit != 0 || f.DeliveryCount != 10 || !f.Drain {
			t.Fatalf("flow %+v", f)
		}
	})
}

// TestSessionWindow: a client's window of transfers holds its messages back.
func TestSessionWindow(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		fill(s, 5)

		c := s.dial()
		check(t, c.AttachReceiver(rawclient.Receiver{Address: "q"}))
		_, err := rawclient.Expect[*wire.Attach](c)
		check(t, err)

		flow := rawclient.CreditFlow(0, 0, 5)
		flow.IncomingWindow = 2
		flow.Echo = true
		check(t, c.Send(0, flow))

		for range 2 {
			_, err := rawclient.Expect[*wire.Transfer](c)
			check(t, err)
		}

		echo, err := rawclient.Expect[*wire.Flow](c)
		check(t, err)

		if echo.NextOutgoingID != 2 || echo.LinkCredit != 3 {
			t.Fatalf("flow %+v", echo)
		}

		check(t, c.Send(0, &wire.Flow{HasNextIncomingID: true, NextIncomingID: 2, IncomingWindow: 100}))

		for range 3 {
			_, err := rawclient.Expect[*wire.Transfer](c)
			check(t, err)
		}
	})
}

func TestKeepAlive(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		c := rawclient.New(s.pipe())
		check(t, c.Protocol(wire.ProtocolAMQP)) // without SASL
		check(t, c.Send(0, &wire.Open{ContainerID: "idle", IdleTimeout: 30_000}))

		_, err := rawclient.Expect[*wire.Open](c)
		check(t, err)

		start := time.Now()
		frame := make([]byte, wire.FrameHeaderSize)
		_, err = io.ReadFull(c.Net, frame)
		check(t, err)

		if !bytes.Equal(frame, wire.AppendKeepAlive(nil)) || time.Since(start) != 15*time.Second {
			t.Fatalf("% x after %s", frame, time.Since(start))
		}
	})
}

func TestServerClosesPolitely(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		c := s.dial()

		go func() { _ = s.Close() }()

		closed, err := rawclient.Expect[*wire.Close](c)
		check(t, err)

		if closed.Error.Condition != broker.CondConnectionForced {
			t.Fatalf("close %+v", closed)
		}

		if _, err := c.Receive(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	})
}

func TestIdleConnections(t *testing.T) {
	t.Run("never linked", func(t *testing.T) {
		inBubble(t, func(s *server) {
			c, err := rawclient.Open(s.pipe())
			check(s.t, err)
			closedAfter(s.t, c, time.Minute)
		})
	})
	t.Run("without links", func(t *testing.T) {
		inBubble(t, func(s *server) {
			c := s.dial()

			keepAlive(c)

			closedAfter(s.t, c, 5*time.Minute)
		})
	})
}

// keepAlive sends empty frames until the connection ends.
func keepAlive(c *rawclient.Client) {
	time.AfterFunc(time.Minute, func() {
		if _, err := c.Net.Write(wire.AppendKeepAlive(nil)); err == nil {
			keepAlive(c)
		}
	})
}

func TestSilentConnection(t *testing.T) {
	inBubble(t, func(s *server) {
		c := s.dial()
		_, err := c.AttachSender(0, 0, "q")
		check(s.t, err)
		closedAfter(s.t, c, 4*time.Minute) // twice what the server announces
	})
}

func closedAfter(tb testing.TB, c *rawclient.Client, want time.Duration) {
	tb.Helper()

	start := time.Now()
	closed, err := rawclient.Expect[*wire.Close](c)
	check(tb, err)

	if closed.Error.Condition != broker.CondConnectionForced || time.Since(start).Round(20*time.Second) != want {
		tb.Fatalf("%v after %s", closed.Error, time.Since(start))
	}
}

func TestIdleLinks(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t
		c := s.dial()
		_, err := c.AttachSender(0, 0, "q")
		check(t, err)

		// One receiver has no credit, the other waits for messages.
		for handle := range uint32(2) {
			check(t, c.AttachReceiver(rawclient.Receiver{Handle: handle + 1, Address: "q"}))
			_, err = rawclient.Expect[*wire.Attach](c)
			check(t, err)
		}

		check(t, c.Credit(0, 2, 0, 5))

		keepAlive(c)

		start := time.Now()
		detached := make(map[uint32]bool)

		for range 2 {
			d, err := rawclient.Expect[*wire.Detach](c)
			check(t, err)

			detached[d.Handle] = true

			if idle := time.Since(start); d.Error.Condition != broker.CondDetachForced || idle.Round(20*time.Second) != 10*time.Minute {
				t.Fatalf("%+v after %s", d, idle)
			}
		}

		if !detached[0] || !detached[1] {
			t.Fatalf("detached %v", detached)
		}
	})
}
