package front_test

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/rawclient"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

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

// TestLinksEndWithTheirToken: links are detached when the token for their entity expires. Another
// token for the same entity in time keeps them.
func TestLinksEndWithTheirToken(t *testing.T) {
	const lifetime = 3 * time.Minute

	for name, expiration := range map[string]func(until time.Time) any{
		"signature":                  nil,
		"identity, expiry as a text": func(until time.Time) any { return strconv.FormatInt(until.Unix(), 10) },
		"identity, expiry as a date": func(until time.Time) any { return wire.Timestamp(until.UnixMilli()) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *server) {
				t := s.t
				c, err := rawclient.Open(s.pipe())
				check(t, err)

				put := func() {
					until := time.Now().Add(lifetime)
					var code int32

					if expiration == nil {
						code, err = c.PutToken(1, "amqp://localhost/q", rawclient.Token("p", "k", "amqp://localhost/q", until))
					} else {
						code, err = c.PutIdentity(1, "amqp://localhost/q", expiration(until))
					}

					check(t, err)

					if code != 202 {
						t.Fatalf("status %d", code)
					}
				}

				put()
				check(t, c.Begin(0))

				for handle, address := range []string{"q", "q/$management"} {
					_, err := c.AttachSender(0, uint32(handle), address)
					check(t, err)
				}

				attachReceiver(t, c, rawclient.Receiver{Handle: 2, Address: "q"})
				check(t, c.Credit(0, 2, 0, 1))
				keepAlive(c)
				<-time.After(lifetime / 2)
				put()

				renewed := time.Now()
				detached := make(map[uint32]bool)

				for range 3 {
					d, err := rawclient.Expect[*wire.Detach](c)
					check(t, err)

					detached[d.Handle] = true

					if after := time.Since(renewed).Round(20 * time.Second); d.Error.Condition != broker.CondDetachForced ||
						!strings.Contains(d.Error.Description, "Code: RenewToken") || after != lifetime {
						t.Fatalf("%v after %s", d.Error, after)
					}
				}

				if len(detached) != 3 {
					t.Fatalf("detached %v", detached)
				}
			})
		})
	}
}

func TestIdleLinks(t *testing.T) {
	inBubble(t, func(s *server) {
		t := s.t
		c := s.dial()
		_, err := c.AttachSender(0, 0, "q")
		check(t, err)

		// One receiver has no credit. The other has credit and waits for messages.
		for handle := range uint32(2) {
			attachReceiver(t, c, rawclient.Receiver{Handle: handle + 1, Address: "q"})
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
