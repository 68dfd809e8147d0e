package controlplane

import (
	"errors"

	"github.com/penstock-cdc/penstock/integration/proc"
)

// toolsVariable is the environment variable that names the folder of binaries.
const toolsVariable = "PENSTOCK_KUBE_TOOLS"

// Names of the programs' binaries.
const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
)

// An administrator's programs, for [ControlPlane.Command].
const (
	Helm    = "helm"
	Kubectl = "kubectl"
)

// ErrNoTools says that no folder of binaries is configured, and what to do.
var ErrNoTools = errors.New("no Kubernetes binaries: make test-kube builds them and names their folder in " + toolsVariable)

// Tools returns the folder of binaries from the environment. It fails with [ErrNoTools] if
// the variable is not set, and with another error if a binary is missing.
func Tools() (string, error) {
	return proc.Tools(toolsVariable, ErrNoTools, etcd, apiServer, controllerManager, scheduler, Helm, Kubectl)
}
