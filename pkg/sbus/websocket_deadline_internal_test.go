package sbus

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
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

// An AMQP connection sets a deadline before each write, which can pass between two writes.
func TestWriteToAWebSocketHasItsOwnTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		defer close(done)
		c := webSocketTo(t, func(c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, len("late")))
			<-done // reads nothing more
		})
		_ = c.SetDeadline(time.Now().Add(-time.Second))
		if _, err := c.Write([]byte("late")); err != nil {
			t.Errorf("a write after its deadline: %v", err)
		}
		began := time.Now()
		if _, err := c.Write(make([]byte, 1<<20)); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != writeTimeout {
			t.Errorf("a write that hangs ended after %v: %v", time.Since(began), err)
		}
	})
}
