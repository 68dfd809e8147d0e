package controlplane_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/controlplane"
)

// echo serves lines back until the end of the test.
func echo(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return listener.Addr().String()
}

type client struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
}

func dial(t *testing.T, address string) *client {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t: t, conn: conn, reader: bufio.NewReader(conn)}
}

func (c *client) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// hear returns the next line, if it comes within that time.
func (c *client) hear(within time.Duration) (string, error) {
	c.t.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		c.t.Fatal(err)
	}
	return c.reader.ReadString('\n')
}

func TestProxy(t *testing.T) {
	t.Parallel()
	proxy, err := controlplane.NewProxy(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	const soon, short = time.Minute, 100 * time.Millisecond
	before := dial(t, proxy.Address())
	before.say("one")
	if got, err := before.hear(soon); got != "one\n" {
		t.Fatalf("heard %q: %v", got, err)
	}

	proxy.Cut()
	during := dial(t, proxy.Address())
	for _, c := range []*client{before, during} {
		c.say("two")
		if got, err := c.hear(short); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("heard %q through a cut: %v", got, err)
		}
	}
	proxy.Heal()
	for _, c := range []*client{before, during} {
		if got, err := c.hear(soon); got != "two\n" {
			t.Errorf("heard %q after the cut: %v", got, err)
		}
	}

	proxy.Refuse()
	for _, c := range []*client{before, dial(t, proxy.Address())} {
		if got, err := c.hear(soon); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("heard %q from a proxy that refuses: %v", got, err)
		}
	}
	proxy.Heal()
	after := dial(t, proxy.Address())
	after.say("three")
	if got, err := after.hear(soon); got != "three\n" {
		t.Errorf("heard %q after the refusal: %v", got, err)
	}
}
