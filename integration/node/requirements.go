//go:build linux

package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/penstock-cdc/penstock/integration/proc"
)

// toolsVariable is the environment variable that names the folder of the node's
// programs.
const toolsVariable = "PENSTOCK_NODE_TOOLS"

// The node's programs, by the names of their binaries.
const (
	containerd    = "containerd"
	shim          = "containerd-shim-runc-v2"
	ctr           = "ctr"
	runc          = "runc"
	kubelet       = "kubelet"
	kubeProxy     = "kube-proxy"
	coreDNS       = "coredns"
	metricsServer = "metrics-server"
	plugins       = "cni"
)

// ErrNoTools says that no folder of the node's programs is configured.
var ErrNoTools = errors.New("no programs of a Kubernetes node: make test-cluster builds them and names their folder in " + toolsVariable)

// Tools returns the folder of the node's programs from the environment. It fails with
// [ErrNoTools] if the variable is not set, and with another error if a program is missing.
func Tools() (string, error) {
	return proc.Tools(toolsVariable, ErrNoTools, containerd, shim, ctr, runc, kubelet, kubeProxy, coreDNS, metricsServer, plugins)
}

// requirements returns an error of one sentence if this machine cannot run a node.
func requirements() error {
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "root")
	}
	for program, what := range map[string]string{"ip": "iproute2", "nft": "nftables", "mount": "util-linux"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, what)
		}
	}
	if _, err := os.Stat("/sys/fs/cgroup"); err != nil {
		missing = append(missing, "cgroups at /sys/fs/cgroup")
	}
	if len(missing) > 0 {
		return fmt.Errorf("a Kubernetes node needs Linux with %s, which this machine or user does not have", strings.Join(missing, ", "))
	}
	return nil
}
