package sbemu

import (
	"context"
	"net"
	"net/http"

	"github.com/coder/websocket"
)

// websocketPath is the path that SDKs use for AMQP over WebSockets.
const websocketPath = "/$servicebus/websocket"

// subprotocols are the names that SDKs use for AMQP: first .NET and Go, then JavaScript and
// Python.
var subprotocols = []string{"amqp", "AMQPWSB10"}

// WebHandler returns the handler of the management API's address, which also serves AMQP
// over WebSockets.
func (s *Server) WebHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == websocketPath {
			s.serveWebSocket(w, r)
		} else {
			s.admin.ServeHTTP(w, r)
		}
	})
}

// serveWebSocket serves AMQP in binary messages. It refuses other subprotocols, and a text
// message ends the connection.
func (s *Server) serveWebSocket(w http.ResponseWriter, r *http.Request) {
	socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols:       subprotocols,
		InsecureSkipVerify: true, // the origin is not checked, because SDKs are no browsers
	})
	if err != nil {
		return // Accept has answered the request
	}

	if socket.Subprotocol() == "" {
		_ = socket.Close(websocket.StatusPolicyViolation, "the subprotocol is amqp")

		return
	}

	// The connection outlives the request.
	c := websocket.NetConn(context.WithoutCancel(r.Context()), socket, websocket.MessageBinary)
	s.front.ServeConn(webSocketConn{c, socket})
}

// webSocketConn closes its connection without waiting for the peer.
type webSocketConn struct {
	net.Conn
	socket *websocket.Conn
}

// Close implements [net.Conn].
func (c webSocketConn) Close() error { return c.socket.CloseNow() }
