package controlplane_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/penstock-cdc/penstock/integration/controlplane"
)

// Clients with the right reach an extension through the API server, and no client reaches
// it directly.
func TestExtend(t *testing.T) {
	t.Parallel()
	cp := start(t, controlplane.Options{})
	var host atomic.Value
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host.Store(r.Context().Value(http.LocalAddrContextKey))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"tests.penstock.io/v1","resources":[]}`)
	})
	if err := cp.Extend(t.Context(), "tests.penstock.io", "v1", handler); err != nil {
		t.Fatal(err)
	}
	const path = "/apis/tests.penstock.io/v1/things"
	may, err := cp.ServiceAccount(t.Context(), "here", "may", rbacv1.PolicyRule{
		APIGroups: []string{"tests.penstock.io"}, Resources: []string{"things"}, Verbs: []string{"list"},
	})
	if err != nil {
		t.Fatal(err)
	}
	core, err := corev1client.NewForConfig(cp.Client(may))
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) error { return core.RESTClient().Get().AbsPath(path).Do(t.Context()).Error() }
	if err := get("/apis/tests.penstock.io/v1/namespaces/here/things"); err != nil {
		t.Errorf("one who may is not served: %v", err)
	}
	if err := get(path); !apierrors.IsForbidden(err) {
		t.Errorf("one who may not is answered: %v", err)
	}

	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+host.Load().(interface{ String() string }).String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := transport.RoundTrip(request); err == nil {
		_ = response.Body.Close()
		t.Errorf("the extension answers %s past the API server", response.Status)
	}
}
