package leader_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/penstock-cdc/penstock/publisher/internal/leader"
)

// leaseServer is an API server that has one Lease.
type leaseServer struct {
	*httptest.Server
	// arrived gets a value for every request.
	arrived chan struct{}

	mu          sync.Mutex
	hang        chan struct{} // the next request waits until it is closed; nil: it does not wait
	lease       *coordinationv1.Lease
	paths       []string
	protocols   map[int]bool
	connections map[string]bool
}

func newLeaseServer(t *testing.T) *leaseServer {
	t.Helper()
	s := &leaseServer{arrived: make(chan struct{}, 100), protocols: map[int]bool{}, connections: map[string]bool{}}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// hangNext makes the next request wait until the returned channel is closed.
func (s *leaseServer) hangNext() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hang = make(chan struct{})
	return s.hang
}

func (s *leaseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.paths = append(s.paths, r.Method+" "+r.URL.Path)
	s.protocols[r.ProtoMajor] = true
	s.connections[r.RemoteAddr] = true
	hang := s.hang
	s.hang = nil
	s.mu.Unlock()
	s.arrived <- struct{}{}
	if hang != nil {
		<-hang
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet {
		if s.lease == nil {
			status := apierrors.NewNotFound(leaseKind, "publisher").Status()
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(status)
			return
		}
		_ = json.NewEncoder(w).Encode(s.lease)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// Clients send protobuf, and read the content type that they get.
	var lease coordinationv1.Lease
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, &lease); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	lease.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
	s.lease = &lease
	_ = json.NewEncoder(w).Encode(s.lease)
}

// kubeconfig writes a file for the server, with the namespace prod, and returns its
// path.
func (s *leaseServer) kubeconfig(t *testing.T) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{
		Server: s.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{
			Type: "CERTIFICATE", Bytes: s.Certificate().Raw,
		}),
	}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "t"}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: "prod"}
	config.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestKubernetesLock(t *testing.T) {
	t.Parallel()
	server := newLeaseServer(t)
	lock, err := leader.NewKubernetesLock(leader.KubernetesConfig{
		Name:           "publisher",
		Identity:       "a",
		Kubeconfig:     server.kubeconfig(t),
		RequestTimeout: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if lock.Identity() != "a" || lock.Describe() != "prod/publisher" {
		t.Errorf("identity %q, description %q", lock.Identity(), lock.Describe())
	}
	if _, _, err := lock.Get(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("Get returned %v, want NotFound", err)
	}
	now := time.Now()
	if err := lock.Create(t.Context(), record("a", now)); err != nil {
		t.Fatal(err)
	}
	if err := lock.Update(t.Context(), record("a", now)); err != nil {
		t.Fatal(err)
	}
	if got, _, err := lock.Get(t.Context()); err != nil || got.HolderIdentity != "a" {
		t.Errorf("record %v, %v", got, err)
	}
	const leases = "/apis/coordination.k8s.io/v1/namespaces/prod/leases"
	want := []string{
		"GET " + leases + "/publisher", "POST " + leases,
		"PUT " + leases + "/publisher", "GET " + leases + "/publisher",
	}
	if got := strings.Join(server.paths, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("requests were\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if server.protocols[2] {
		t.Error("requests share an HTTP/2 connection")
	}
}

func TestKubernetesLockBoundsItsRequests(t *testing.T) {
	t.Parallel()
	server := newLeaseServer(t)
	hang := server.hangNext()
	defer close(hang)
	lock, err := leader.NewKubernetesLock(leader.KubernetesConfig{
		Name: "publisher", Identity: "a", Kubeconfig: server.kubeconfig(t), RequestTimeout: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := lock.Get(t.Context()); err == nil || apierrors.IsNotFound(err) {
		t.Errorf("Get returned %v, want a timeout", err)
	}
}

// The requests after one that hung must not wait on its connection.
func TestKubernetesLockReplacesAHangingConnection(t *testing.T) {
	t.Parallel()
	server := newLeaseServer(t)
	lock, err := leader.NewKubernetesLock(leader.KubernetesConfig{
		Name:           "publisher",
		Namespace:      "elsewhere",
		Identity:       "a",
		Kubeconfig:     server.kubeconfig(t),
		RequestTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	hang := server.hangNext()
	defer close(hang)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-server.arrived
		cancel()
	}()
	if _, _, err := lock.Get(ctx); err == nil || apierrors.IsNotFound(err) {
		t.Fatalf("Get returned %v, want the context's error", err)
	}
	if err := lock.Create(t.Context(), record("a", time.Now())); err != nil {
		t.Fatalf("Create after a hung request returned %v", err)
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	if len(server.connections) != 2 {
		t.Errorf("%d connections, want a new one after the hung one", len(server.connections))
	}
	if server.lease.Namespace != "elsewhere" {
		t.Errorf("lease is in %q, want the configured namespace", server.lease.Namespace)
	}
}

func TestKubernetesLockRefuses(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	broken := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		config leader.KubernetesConfig
		want   string
	}{
		"no name":       {leader.KubernetesConfig{Identity: "a"}, "must not be empty"},
		"no identity":   {leader.KubernetesConfig{Name: "publisher"}, "must not be empty"},
		"outside a pod": {leader.KubernetesConfig{Name: "publisher", Identity: "a"}, "set KUBECONFIG elsewhere"},
		"broken file":   {leader.KubernetesConfig{Name: "publisher", Identity: "a", Kubeconfig: broken}, "load the kubeconfig"},
		"no file":       {leader.KubernetesConfig{Name: "publisher", Identity: "a", Kubeconfig: broken + "2"}, "there is no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := leader.NewKubernetesLock(tc.config); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want it to say %q", err, tc.want)
			}
		})
	}
}
