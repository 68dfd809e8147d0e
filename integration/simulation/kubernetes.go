package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// kubeconfig is for clients of the API server.
const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: simulation, cluster: {server: "http://kubernetes:80"}}]
contexts: [{name: simulation, context: {cluster: simulation, user: simulation, namespace: default}}]
users: [{name: simulation, user: {}}]
current-context: simulation
`

// apiServer is what an election needs of the API server of Kubernetes: Leases with optimistic
// concurrency by resourceVersion. The tests of integration/kube run on a real one.
type apiServer struct {
	server *http.Server
	served sync.WaitGroup

	mu      sync.Mutex
	version int
	leases  map[string]*coordinationv1.Lease
	// refusals are how many requests get the status refusal.
	refusals, refusal int
}

func newAPIServer(l net.Listener) *apiServer {
	s := &apiServer{leases: make(map[string]*coordinationv1.Lease)}
	mux := http.NewServeMux()
	const leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	mux.HandleFunc("GET "+leases+"/{name}", s.get)
	mux.HandleFunc("POST "+leases, s.create)
	mux.HandleFunc("PUT "+leases+"/{name}", s.update)
	s.server = &http.Server{Handler: s.refusing(mux), ReadHeaderTimeout: time.Minute}
	s.served.Go(func() { _ = s.server.Serve(l) })
	return s
}

func (s *apiServer) close() error {
	err := s.server.Close()
	s.served.Wait()
	return err
}

// refuse refuses the next n requests with an HTTP status.
func (s *apiServer) refuse(n, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusals, s.refusal = n, status
}

// deleteLeases is what an operator does by mistake.
func (s *apiServer) deleteLeases() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.leases)
}

var leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (s *apiServer) refusing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		refused, status := s.refusals > 0, s.refusal
		s.refusals = max(s.refusals-1, 0)
		s.mu.Unlock()
		if refused {
			fail(w, apierrors.NewGenericServerResponse(status, r.Method, leaseResource, "", "refused by order of a simulation", 0, true))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *apiServer) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lease := s.leases[r.PathValue("name")]
	if lease == nil {
		fail(w, apierrors.NewNotFound(leaseResource, r.PathValue("name")))
		return
	}
	reply(w, http.StatusOK, lease)
}

func (s *apiServer) create(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lease, err := decode(r)
	switch {
	case err != nil:
		fail(w, apierrors.NewBadRequest(err.Error()))
	case s.leases[lease.Name] != nil:
		fail(w, apierrors.NewAlreadyExists(leaseResource, lease.Name))
	default:
		s.store(w, http.StatusCreated, lease)
	}
}

func (s *apiServer) update(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lease, err := decode(r)
	name := r.PathValue("name")
	switch {
	case err != nil:
		fail(w, apierrors.NewBadRequest(err.Error()))
	case s.leases[name] == nil:
		fail(w, apierrors.NewNotFound(leaseResource, name))
	case lease.ResourceVersion != "" && lease.ResourceVersion != s.leases[name].ResourceVersion:
		fail(w, apierrors.NewConflict(leaseResource, name, errors.New("the object has been modified")))
	default:
		s.store(w, http.StatusOK, lease)
	}
}

// store stores a lease under the next version. The caller holds mu.
func (s *apiServer) store(w http.ResponseWriter, status int, lease *coordinationv1.Lease) {
	s.version++
	lease.ResourceVersion = strconv.Itoa(s.version)
	s.leases[lease.Name] = lease
	reply(w, status, lease)
}

// decode reads a lease in any format that clients send.
func decode(r *http.Request) (*coordinationv1.Lease, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	lease, ok := object.(*coordinationv1.Lease)
	if !ok {
		return nil, fmt.Errorf("%T is not a lease", object)
	}
	return lease, nil
}

func fail(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	reply(w, int(status.Code), status)
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that has gone needs no answer
}
