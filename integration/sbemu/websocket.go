package sbemu

import (
	"net/http"
	"net/url"

	"golang.org/x/net/websocket"
)

// websocketPath is where SDKs look for AMQP over WebSockets.
const websocketPath = "/$servicebus/websocket"

// webHandler returns the handler of the management API's address: of the API,
// and of AMQP over WebSockets.
func (s *Server) webHandler() http.Handler {
	sockets := websocket.Server{
		Handshake: func(cfg *websocket.Config, _ *http.Request) error {
			cfg.Protocol = []string{"amqp"}

			if cfg.Origin == nil { // SDKs are no browsers
				cfg.Origin = &url.URL{}
			}

			return nil
		},
		Handler: func(c *websocket.Conn) {
			c.PayloadType = websocket.BinaryFrame
			s.front.ServeConn(c)
		},
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == websocketPath {
			sockets.ServeHTTP(w, r)
		} else {
			s.admin.ServeHTTP(w, r)
		}
	})
}
