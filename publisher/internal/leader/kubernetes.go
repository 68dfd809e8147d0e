package leader

import (
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// KubernetesConfig names the Lease.
type KubernetesConfig struct {
	// Name is the Lease's name.
	Name string
	// Namespace is empty for the pod's own, or that of the kubeconfig's context.
	Namespace string
	// Identity is the holder's; see [NewIdentity].
	Identity string
	// Kubeconfig is a list of files as in $KUBECONFIG; empty: the pod's service
	// account.
	Kubeconfig string
	// RequestTimeout is Config.RequestTimeout.
	RequestTimeout time.Duration
	// EventRecorder, if not nil, records who won and lost on the Lease.
	EventRecorder resourcelock.EventRecorder
}

// NewKubernetesLock makes a lock on a Lease, which it creates where it is missing.
// It needs the verbs get, create and update on it, and contacts no server yet.
func NewKubernetesLock(config KubernetesConfig) (resourcelock.Interface, error) {
	panic("pending")
}
