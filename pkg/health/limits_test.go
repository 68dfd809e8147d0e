package health_test

import (
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/pkg/health"
)

// dial opens a connection to the server and sends text.
func dial(t *testing.T, server *health.Server, text string) {
	t.Helper()
	var dialer net.Dialer
	connection, err := dialer.DialContext(t.Context(), "tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	_ = connection.SetWriteDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(connection, text) // The server may refuse the rest of it.
}

func startServer(t *testing.T, o health.Options) *health.Server {
	t.Helper()
	o.Address = "127.0.0.1:0"
	server, _, err := health.Start(t.Context(), health.New(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// Clients that send complete requests and do not read the answers keep no probe from its
// answer, and occupy a bounded number of pages.
func TestRequestsWithoutReadersDoNotBlockProbes(t *testing.T) {
	const connections, limit = 400, 16
	answer := make([]byte, 16<<20)
	var running, highest atomic.Int64
	large := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		highest.Store(max(highest.Load(), running.Add(1)))
		defer running.Add(-1)
		_, _ = w.Write(answer)
	})
	server := startServer(t, health.Options{Metrics: large})
	for range connections {
		dial(t, server, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	if code, _, err := get(t, "http://"+server.Addr().String()+"/livez"); err != nil || code != http.StatusOK {
		t.Errorf("the probe was answered with %d, %v", code, err)
	}
	if n := highest.Load(); n > limit {
		t.Errorf("%d pages were made at the same time, want at most %d", n, limit)
	}
}
