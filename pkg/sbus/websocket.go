package sbus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// The transports, by the names that configuration uses.
const (
	// transportAMQP is AMQP over TLS, on port 5671.
	transportAMQP = "amqp"
	// transportWebSocket is AMQP over WebSockets over TLS, on port 443, for networks that
	// block port 5671. It uses the proxy of HTTPS_PROXY.
	transportWebSocket = "websocket"
)

// webSocketPath and webSocketProtocol are where and how Service Bus serves AMQP over
// WebSockets. https://learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-protocol-guide
const (
	webSocketPath     = "/$servicebus/websocket"
	webSocketProtocol = "amqp"
)

// Dialer returns the function that opens a connection for AMQP: [Config.Dial], or one that
// dials over WebSockets. It is nil if the library dials TLS or TCP by itself. The context
// bounds only the opening.
func (n *Namespace) Dialer() func(ctx context.Context) (net.Conn, error) {
	if n.config.Dial != nil || n.config.Transport != transportWebSocket {
		return n.config.Dial
	}
	return func(ctx context.Context) (net.Conn, error) {
		return dialWebSocket(ctx, n.Host(), &tls.Config{MinVersion: tls.VersionTLS12})
	}
}

func dialWebSocket(ctx context.Context, host string, trust *tls.Config) (net.Conn, error) {
	return OpenWebSocket(ctx, host, &http.Client{Transport: &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		TLSClientConfig:   trust,
		DisableKeepAlives: true,
	}})
}

// OpenWebSocket opens a connection for AMQP over WebSockets to a host, which may have a
// port. The client dials and does TLS. The context bounds only the opening. Services use
// [Namespace.Dialer]; this is for tests without a network.
func OpenWebSocket(ctx context.Context, host string, client *http.Client) (net.Conn, error) {
	socket, response, err := websocket.Dial(ctx, "wss://"+host+webSocketPath, &websocket.DialOptions{
		HTTPClient: client, Subprotocols: []string{webSocketProtocol},
	})
	if response != nil && response.Body != nil {
		_ = response.Body.Close() // the socket does not use it
	}
	if err != nil {
		return nil, fmt.Errorf("open a WebSocket to %s: %w", host, err)
	}
	if protocol := socket.Subprotocol(); protocol != webSocketProtocol {
		_ = socket.CloseNow()
		return nil, fmt.Errorf("open a WebSocket to %s: the server speaks the subprotocol %q, not %s: check the host name, and the proxy of HTTPS_PROXY", host, protocol, webSocketProtocol)
	}
	// The connection outlives the context of the opening.
	return &webSocketConn{Conn: websocket.NetConn(context.WithoutCancel(ctx), socket, websocket.MessageBinary), socket: socket}, nil
}

// webSocketConn corrects [websocket.NetConn]. It closes without the closing handshake of
// WebSockets, which would wait for up to 5 s. And a write deadline ends a write that takes
// longer, as that of any [net.Conn] does. The timer of NetConn runs on between two writes:
// if it fires when the next write begins, that write fails and the connection ends. Idle
// connections write at regular intervals, so this is not rare.
type webSocketConn struct {
	net.Conn
	socket *websocket.Conn

	mu sync.Mutex
	// deadline is that of writes; zero for none. It is set in Conn only while writes are
	// more than 0.
	deadline time.Time
	writes   int
}

// Close implements [net.Conn].
func (c *webSocketConn) Close() error { return c.socket.CloseNow() }

// Write implements [net.Conn].
func (c *webSocketConn) Write(p []byte) (int, error) {
	if !c.beginWrite() {
		return 0, fmt.Errorf("write to a WebSocket: %w", os.ErrDeadlineExceeded)
	}
	defer c.endWrite()
	return c.Conn.Write(p)
}

// beginWrite starts the timer of the deadline. It returns false if the deadline has passed.
func (c *webSocketConn) beginWrite() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		return false
	}
	c.writes++
	_ = c.Conn.SetWriteDeadline(c.deadline)
	return true
}

// endWrite stops the timer of the deadline after the last write.
func (c *webSocketConn) endWrite() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writes--; c.writes == 0 {
		_ = c.Conn.SetWriteDeadline(time.Time{})
	}
}

// SetWriteDeadline implements [net.Conn].
func (c *webSocketConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	if c.writes > 0 {
		return c.Conn.SetWriteDeadline(t)
	}
	return nil
}

// SetDeadline implements [net.Conn].
func (c *webSocketConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
