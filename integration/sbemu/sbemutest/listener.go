package sbemutest

import (
	"context"
	"net"
	"sync"
)

// Listener is a listener in memory, for [sbemu.Config.Listener]. Without the network a test
// can run in the virtual time of testing/synctest: an hour until a lock expires takes no
// time.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewListener returns a listener whose connections [Listener.Dial] opens. In a bubble of
// testing/synctest, make it inside the bubble.
func NewListener() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects to the server. The SDK uses it as ClientOptions.NewWebSocketConn.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()

	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })

	return nil
}

// Addr implements [net.Listener]. It is the address that a connection string shows.
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5672} }
