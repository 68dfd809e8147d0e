package leader

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// namespaceFile is the file in which the kubelet gives a pod its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// KubernetesConfig names the Lease.
type KubernetesConfig struct {
	// Name is the Lease's name.
	Name string
	// Namespace is empty for the pod's own, or for that of the kubeconfig's context.
	Namespace string
	// Identity is the holder's; see [NewIdentity].
	Identity string
	// Kubeconfig is a list of files as in $KUBECONFIG. Empty means the pod's service
	// account.
	Kubeconfig string
	// Dial opens the connections to the API server; nil means TCP. A process in a test has
	// none.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// RequestTimeout is Config.RequestTimeout.
	RequestTimeout time.Duration
}

// NewKubernetesLock makes a lock on a Lease without a request. The first leader creates the
// Lease if it is missing. The lock needs the verbs get and update on the Lease, and create
// on leases if the Lease can be missing. NewKubernetesLock fails if there are no credentials
// or there is no namespace.
func NewKubernetesLock(config KubernetesConfig) (resourcelock.Interface, error) {
	if config.Name == "" || config.Identity == "" {
		return nil, errors.New("make a lease lock: name and identity must not be empty")
	}
	client, namespace, err := clientConfig(config)
	if err != nil {
		return nil, err
	}
	leases, err := coordinationv1.NewForConfig(rest.AddUserAgent(client, "penstock-publisher-election"))
	if err != nil {
		return nil, fmt.Errorf("make a client for leases: %w", err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: config.Name, Namespace: namespace},
		Client:     leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: config.Identity},
	}, nil
}

// clientConfig returns how to reach the API server, and the Lease's namespace.
func clientConfig(config KubernetesConfig) (*rest.Config, string, error) {
	client, namespace, err := findServer(config.Kubeconfig)
	if err != nil {
		return nil, "", err
	}
	if config.Namespace != "" {
		namespace = config.Namespace
	}
	if namespace == "" {
		return nil, "", errors.New("find the lease's namespace: it is not configured, and this is not a pod")
	}
	client = rest.CopyConfig(client)
	client.Timeout = config.RequestTimeout
	client.Dial = config.Dial
	// Over HTTP/2, a request that timed out leaves its dead connection to the next request
	// until a ping is unanswered: 45 s by client-go's defaults, three leases. Over HTTP/1.1
	// a request that times out closes its connection.
	client.NextProtos = []string{"http/1.1"}
	return client, namespace, nil
}

// findServer returns the configuration for the API server, and the namespace that belongs
// to it, empty if there is none.
func findServer(kubeconfig string) (*rest.Config, string, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, "", fmt.Errorf("find the API server as a pod does, set KUBECONFIG elsewhere: %w", err)
		}
		namespace, err := os.ReadFile(namespaceFile)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, "", fmt.Errorf("read the pod's namespace: %w", err)
		}
		return config, strings.TrimSpace(string(namespace)), nil
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(kubeconfig)},
		&clientcmd.ConfigOverrides{},
	)
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		// client-go ignores files that do not exist, and its error then names a variable
		// that this program does not read.
		return nil, "", fmt.Errorf("load the kubeconfig %s: there is no such file, or it is empty", kubeconfig)
	}
	if err != nil {
		return nil, "", fmt.Errorf("load the kubeconfig %s: %w", kubeconfig, err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("read the namespace of the kubeconfig %s: %w", kubeconfig, err)
	}
	return config, namespace, nil
}
