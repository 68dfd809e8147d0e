package front_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/rawclient"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

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

				// The server sends its own protocol header, and closes.
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

// authenticate requests a mechanism, and checks whether the server accepts it.
func authenticate(tb testing.TB, c *rawclient.Client, init *wire.SASLInit, accepted bool) {
	tb.Helper()
	c.Queue(wire.FrameSASL, 0, init)
	check(tb, c.Flush())

	outcome, err := rawclient.Expect[*wire.SASLOutcome](c)
	check(tb, err)

	if (outcome.Code == 0) != accepted {
		tb.Fatalf("outcome is %d", outcome.Code)
	}
}

// begin opens an authenticated connection and begins a session on channel 0.
func begin(tb testing.TB, c *rawclient.Client) {
	tb.Helper()
	check(tb, c.Protocol(wire.ProtocolAMQP))
	check(tb, c.Send(0, &wire.Open{ContainerID: "raw"}))
	_, err := rawclient.Expect[*wire.Open](c)
	check(tb, err)
	check(tb, c.Begin(0))
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
				authenticate(t, c, &wire.SASLInit{Mechanism: "PLAIN", Response: []byte(response)}, ok)

				if !ok {
					return
				}

				// The key grants its rights without a token.
				begin(t, c)
				_, err = c.AttachSender(0, 0, "q")
				check(t, err)
			})
		})
	}
}

// TestMechanisms: mechanisms without a key grant no rights, and a mechanism that is not
// offered is refused.
func TestMechanisms(t *testing.T) {
	for mechanism, known := range map[wire.Symbol]bool{"ANONYMOUS": true, "EXTERNAL": true, "MSSBCBS": true, "GSSAPI": false} {
		t.Run(string(mechanism), func(t *testing.T) {
			inBubble(t, func(s *server) {
				t := s.t

				c := rawclient.New(s.pipe())
				check(t, c.Protocol(wire.ProtocolSASL))

				offer, err := rawclient.Expect[*wire.SASLMechanisms](c)
				check(t, err)

				if slices.Contains(offer.Mechanisms, mechanism) != known {
					t.Fatalf("offered are %v", offer.Mechanisms)
				}

				authenticate(t, c, &wire.SASLInit{Mechanism: mechanism}, known)

				if !known {
					return
				}

				begin(t, c)
				check(t, c.AttachReceiver(rawclient.Receiver{Address: "q"}))

				if _, why := refused(t, c); why != broker.CondUnauthorized {
					t.Fatalf("refused with %s", why)
				}
			})
		})
	}
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

		// An expired token grants no rights, and ends its links.
		<-time.After(2 * time.Minute)

		if detach, err = rawclient.Expect[*wire.Detach](c); err != nil || detach.Error.Condition != broker.CondDetachForced {
			t.Fatal(detach, err)
		}

		_, err = c.AttachSender(0, 2, "q")
		check(t, err)

		if detach, err = rawclient.Expect[*wire.Detach](c); err != nil || detach.Error.Condition != broker.CondUnauthorized {
			t.Fatal(detach, err)
		}
	})
}

func TestServerSendsACloseFrameBeforeItDisconnects(t *testing.T) {
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

// TestCloseFrameEndsADelayedConnection: a close frame ends the connection, even if frames
// are delayed and the client keeps its side open.
func TestCloseFrameEndsADelayedConnection(t *testing.T) {
	for name, last := range map[string]wire.Performative{"closed": &wire.Close{}, "malformed": &wire.Transfer{Handle: 9}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *server) {
				t := s.t

				c := s.dial()
				s.Faults.SetLatency(time.Second, time.Second)
				check(t, c.Send(0, last))

				_, err := rawclient.Expect[*wire.Close](c)
				check(t, err)

				start := time.Now()

				if _, err := c.Receive(); !errors.Is(err, io.EOF) || time.Since(start) > time.Minute {
					t.Fatalf("%v after %s", err, time.Since(start))
				}
			})
		})
	}
}

// TestChannelsEndAtTheServersMaximum: a session on a channel over the announced maximum ends the
// connection.
func TestChannelsEndAtTheServersMaximum(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t

		c := s.dial()
		check(t, c.Begin(4999))
		check(t, c.Send(5000, &wire.Begin{}))

		closed, err := rawclient.Expect[*wire.Close](c)
		check(t, err)

		if closed.Error.Condition != broker.CondFramingError {
			t.Fatalf("close %+v", closed)
		}
	})
}
