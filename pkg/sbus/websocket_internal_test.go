package sbus

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// serveWebSocket starts a server that echoes binary messages of a subprotocol, and
// returns its host and a TLS configuration that trusts it.
func serveWebSocket(t *testing.T, protocols ...string) (host string, trust *tls.Config) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/$servicebus/websocket" {
			http.NotFound(w, r)
			return
		}
		socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: protocols})
		if err != nil {
			return
		}
		defer func() { _ = socket.CloseNow() }()
		kind, message, err := socket.Read(r.Context())
		if err == nil {
			_ = socket.Write(r.Context(), kind, message)
		}
	}))
	t.Cleanup(server.Close)
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return server.Listener.Addr().String(), &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

func TestWebSocketCarriesBytes(t *testing.T) {
	t.Parallel()
	host, trust := serveWebSocket(t, "amqp")
	c, err := dialWebSocket(t.Context(), host, trust)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("AMQP")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := c.Read(got); err != nil || string(got) != "AMQP" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestWebSocketOfAnotherProtocolIsRefused(t *testing.T) {
	t.Parallel()
	host, trust := serveWebSocket(t, "chat")
	if c, err := dialWebSocket(t.Context(), host, trust); err == nil || !strings.Contains(err.Error(), "subprotocol") {
		t.Errorf("got %v, %v", c, err)
	}
}

func TestWebSocketTransport(t *testing.T) {
	t.Parallel()
	c := Config{ConnectionString: "Endpoint=sb://bus.example;SharedAccessKeyName=n;SharedAccessKey=k", Topic: "events"}
	for transport, want := range map[string]bool{"": false, transportAMQP: false, transportWebSocket: true} {
		c.Transport = transport
		n, err := Open(c)
		if err != nil || c.Check() != nil {
			t.Fatal(err, c.Check())
		}
		if got := n.Dialer() != nil; got != want {
			t.Errorf("transport %q: a WebSocket is %t", transport, got)
		}
	}
	c.Transport = transportWebSocket
	c.ConnectionString += ";UseDevelopmentEmulator=true"
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "PENSTOCK_SERVICEBUS_TRANSPORT is websocket") {
		t.Errorf("the emulator is accepted: %v", err)
	}
}
