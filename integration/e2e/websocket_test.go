package e2e_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// tunnel is an HTTPS proxy that connects every host to one address, and counts the
// connections.
type tunnel struct {
	to      string
	tunnels atomic.Int64
}

// ServeHTTP implements [http.Handler] for CONNECT.
func (p *tunnel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "CONNECT only", http.StatusMethodNotAllowed)
		return
	}
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusOK)
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = server.Close()
		return
	}
	p.tunnels.Add(1)
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
	both.Go(func() { _, _ = io.Copy(client, server); _ = client.Close() })
	both.Wait()
}

// Both services and both receivers reach Service Bus over WebSockets, on the one port that
// the network allows, directly and through a proxy.
func TestAMQPOverWebSockets(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	needsStandIns(t, "it brings stand-ins of its own: a broker with a certificate")
	for _, proxied := range []bool{false, true} {
		t.Run(map[bool]string{false: "directly", true: "through a proxy"}[proxied], func(t *testing.T) {
			t.Parallel()
			backend, address, trusted := startWithCertificate(t, sbemu.Config{
				Topics: []sbemu.Topic{{Name: "events", Record: 1000, Subscriptions: []sbemu.Subscription{{
					Name: "projector", RequiresSession: true, LockDuration: 30 * time.Second,
				}}}},
			})
			host := address
			env := []string{"SSL_CERT_FILE=" + trusted, "PENSTOCK_SERVICEBUS_TRANSPORT=websocket"}
			proxy := &tunnel{to: address}
			if proxied {
				server := httptest.NewServer(proxy)
				t.Cleanup(server.Close)
				host = "example.com" // on port 443, which only the proxy can reach
				env = append(env, "HTTPS_PROXY="+server.URL)
			}
			env = append(env, "AZURE_SERVICEBUS_CONNECTION_STRING="+strings.Join([]string{
				"Endpoint=sb://" + host, "SharedAccessKeyName=" + sbemu.DefaultPolicy, "SharedAccessKey=" + sbemu.DefaultKey,
			}, ";"))

			s := newScenarioOver(t, shop.New(200, 71), backend)
			s.SetEnv(env...)
			s.start(1, 2)
			s.insert(s.workload.Events...)
			s.awaitReadModels()
			if proxied && proxy.tunnels.Load() < 3 {
				t.Errorf("%d connections went through the proxy, want one of each process at least", proxy.tunnels.Load())
			}
		})
	}
}
