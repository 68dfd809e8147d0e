package sbus

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
)

// oneConn is a listener that gives one connection.
type oneConn struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l oneConn) Close() error {
	close(l.closed)
	return nil
}

func (oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// webSocketTo opens a WebSocket without a network. The server handles it with serve.
func webSocketTo(t *testing.T, serve func(net.Conn)) net.Conn {
	t.Helper()
	client, remote := net.Pipe()
	l := oneConn{make(chan net.Conn, 1), make(chan struct{})}
	l.conns <- remote
	handled := make(chan struct{})
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(handled)
		socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{webSocketProtocol}})
		if err != nil {
			t.Error(err)
			return
		}
		serve(websocket.NetConn(r.Context(), socket, websocket.MessageBinary))
		_ = socket.CloseNow()
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	c, err := OpenWebSocket(t.Context(), "sbus.example", &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialTLSContext:    func(context.Context, string, string) (net.Conn, error) { return client, nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		<-handled
		if err := errors.Join(server.Close(), <-served); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return c
}

// An AMQP connection sets a deadline before each write, and its writes can be exactly that
// far apart.
func TestDeadlineBetweenTwoWritesEndsNoWebSocket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := webSocketTo(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		for n := range 3000 {
			_ = c.SetWriteDeadline(time.Now().Add(15 * time.Second))
			if _, err := c.Write([]byte("keep-alive")); err != nil {
				t.Fatalf("write %d: %v", n+1, err)
			}
			<-time.After(15 * time.Second)
		}
	})
}

func TestDeadlineEndsAWriteToAWebSocket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		defer close(done)
		c := webSocketTo(t, func(net.Conn) { <-done }) // reads nothing
		_ = c.SetDeadline(time.Now().Add(-time.Second))
		if _, err := c.Write([]byte("late")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a write after its deadline: %v", err)
		}
		began := time.Now()
		_ = c.SetDeadline(began.Add(time.Hour))
		// A close shortens the deadline of the write that hangs.
		time.AfterFunc(time.Second, func() { _ = c.SetWriteDeadline(began.Add(15 * time.Second)) })
		_, err := c.Write(make([]byte, 1<<20))
		if took := time.Since(began); err == nil || took < 15*time.Second || took > 16*time.Second {
			t.Errorf("a write that hangs ended after %v: %v", took, err)
		}
	})
}
