package sbus

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
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

// writeTimeout bounds one write to a WebSocket. A peer that reads nothing for that long is
// dead.
const writeTimeout = 15 * time.Second

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
// WebSockets, which would wait for up to 5 s. Write deadlines have no effect: the timer of
// NetConn runs on between two writes, and if it fires when the next write begins, that write
// fails and the connection ends. Idle connections write at regular intervals, so this is not
// rare. Each write has writeTimeout instead.
type webSocketConn struct {
	net.Conn
	socket *websocket.Conn
}

// Close implements [net.Conn].
func (c *webSocketConn) Close() error { return c.socket.CloseNow() }

// Write implements [net.Conn].
func (c *webSocketConn) Write(p []byte) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	if err := c.socket.Write(ctx, websocket.MessageBinary, p); err != nil {
		return 0, fmt.Errorf("write to a WebSocket: %w", err)
	}
	return len(p), nil
}

// SetWriteDeadline implements [net.Conn], and does nothing.
func (*webSocketConn) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline implements [net.Conn] for reads.
func (c *webSocketConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }
