package sbus

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"

	"github.com/coder/websocket"
)

// The transports, by the names that configuration uses.
const (
	// TransportAMQP is AMQP over TLS, on port 5671.
	TransportAMQP = "amqp"
	// TransportWebSocket is AMQP over WebSockets over TLS, on port 443, for networks that
	// block port 5671. It uses the proxy of HTTPS_PROXY.
	TransportWebSocket = "websocket"
)

// webSocketPath and webSocketProtocol are where and how Service Bus serves AMQP over
// WebSockets. https://learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-protocol-guide
const (
	webSocketPath     = "/$servicebus/websocket"
	webSocketProtocol = "amqp"
)

// WebSocketDialer gives a function that opens a connection for AMQP over WebSockets; nil if
// the namespace has another transport. The context bounds only the opening.
func (n *Namespace) WebSocketDialer() func(ctx context.Context) (net.Conn, error) {
	if n.config.Transport != TransportWebSocket {
		return nil
	}
	return func(ctx context.Context) (net.Conn, error) {
		return dialWebSocket(ctx, n.Host(), &tls.Config{MinVersion: tls.VersionTLS12})
	}
}

// dialWebSocket opens a WebSocket to a host, which may have a port.
func dialWebSocket(ctx context.Context, host string, trust *tls.Config) (net.Conn, error) {
	client := &http.Client{Transport: &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		TLSClientConfig:   trust,
		DisableKeepAlives: true,
	}}
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

// webSocketConn closes without the closing handshake of WebSockets, which would wait for up
// to 5 s. AMQP has its own.
type webSocketConn struct {
	net.Conn
	socket *websocket.Conn
}

// Close implements [net.Conn].
func (c *webSocketConn) Close() error { return c.socket.CloseNow() }
