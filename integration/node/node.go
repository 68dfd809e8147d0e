//go:build linux

package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/penstock-cdc/penstock/integration/controlplane"
	"github.com/penstock-cdc/penstock/integration/proc"
)

const (
	// Name is the node's name in the cluster.
	Name = "node-0"
	// pauseImage is the image of the containers that hold pods' namespaces.
	pauseImage = "penstock.local/pause:1"
	// pauseProgram is the program of package integration/cmd/pause.
	pauseProgram = "pause"
)

// Options configure a node.
type Options struct {
	// Tools is the folder of the node's programs: see [Tools].
	Tools string
	// Dir gets the node's data, configurations and logs. It must exist and be on a file
	// system that supports overlays. Its name must be short, because sockets are in it. The
	// caller removes it after Stop.
	Dir string
	// Control is the control plane, started with [Address] as its NodeAddress.
	Control *controlplane.ControlPlane
}

// Node is a running node. Its methods may be called concurrently.
type Node struct {
	opts   Options
	layout layout
	client *kubernetes.Clientset
	// processes are in the order of their start.
	processes []*proc.Process
}

// Start starts a node in the namespaces that [Enter] has made, and waits until it is ready
// and resolves names. ctx bounds only the start; the caller stops the node.
func Start(ctx context.Context, opts Options) (*Node, error) {
	if os.Getenv(stageVariable) != stageInside {
		return nil, errors.New("start a node: this process is not in namespaces of its own; call Enter first")
	}
	n := &Node{opts: opts}
	if err := n.start(ctx); err != nil {
		n.Stop()
		return nil, err
	}
	return n, nil
}

func (n *Node) start(ctx context.Context) error {
	if err := n.configure(); err != nil {
		return err
	}
	runtime, err := n.run(containerd, "--config="+filepath.Join(n.opts.Dir, "containerd.toml"))
	if err != nil {
		return err
	}
	if err := runtime.AwaitReady(ctx, func(ctx context.Context) error { return n.ctr(ctx, "version") }); err != nil {
		return err
	}
	archive := filepath.Join(n.opts.Dir, "pause.tar")
	pause := Image{Name: pauseImage, Files: map[string]string{"pause": filepath.Join(n.opts.Tools, pauseProgram)}, Entrypoint: []string{"/pause"}}
	if err := pause.WriteArchive(archive); err != nil {
		return err
	}
	if err := n.Import(ctx, archive); err != nil {
		return err
	}
	if _, err := n.run(kubeProxy, "--config="+filepath.Join(n.opts.Dir, "kube-proxy.yaml")); err != nil {
		return err
	}
	agent, err := n.run(kubelet,
		"--config="+filepath.Join(n.opts.Dir, "kubelet.yaml"), "--kubeconfig="+n.layout.Kubelet.Kubeconfig,
		"--root-dir="+filepath.Join(n.opts.Dir, "kubelet"), "--cert-dir="+filepath.Join(n.opts.Dir, "kubelet-pki"),
		"--hostname-override="+Name, "--node-ip="+Address, "--node-labels=topology.kubernetes.io/zone=zone-0",
	)
	if err != nil {
		return err
	}
	if err := agent.AwaitReady(ctx, n.ready); err != nil {
		return err
	}
	return n.startDNS(ctx)
}

// configure makes the identities and configurations of the node's programs.
func (n *Node) configure() error {
	control := n.opts.Control
	var err error
	if n.client, err = kubernetes.NewForConfig(control.Admin()); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	n.layout = layout{
		Tools: n.opts.Tools, Dir: n.opts.Dir, Cgroup: os.Getenv(cgroupVariable), Name: Name,
		Address: Address, Pods: podRange, DNS: dnsAddress, PauseImage: pauseImage,
	}
	n.layout.Kubelet, err = control.Component("kubelet", "system:node:"+Name, []string{Address, Name}, "system:nodes")
	if err != nil {
		return err
	}
	if n.layout.KubeProxy, err = control.Component(kubeProxy, "system:kube-proxy", nil); err != nil {
		return err
	}
	if n.layout.Cluster, err = control.Component("cluster-addons", "cluster-addons", []string{Address, metricsServer + "." + metav1.NamespaceSystem + ".svc"}, "system:masters"); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"containerd.toml": containerdConfig, "cni/10-penstock.conflist": cniConfig, "kubelet.yaml": kubeletConfig,
		"kube-proxy.yaml": kubeProxyConfig, "Corefile": coreDNSConfig,
		// No name server outside can be reached.
		"resolv.conf": "nameserver 127.0.0.1\n",
	} {
		if err := n.layout.write(name, text); err != nil {
			return err
		}
	}
	return nil
}

// ready fails until the cluster reports the node as ready.
func (n *Node) ready(ctx context.Context) error {
	node, err := n.client.CoreV1().Nodes().Get(ctx, Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if i < 0 || node.Status.Conditions[i].Status != corev1.ConditionTrue {
		return fmt.Errorf("the node is not ready: %+v", node.Status.Conditions)
	}
	return nil
}

// Stop kills the node's programs and waits for their ends. Pods run until the namespaces
// end.
func (n *Node) Stop() {
	for _, process := range slices.Backward(n.processes) {
		process.Kill()
	}
}

// logged is how many of a program's last lines [Node.Report] shows.
const logged = 10

// Report says for each of the node's programs whether it runs, and shows its last lines.
func (n *Node) Report() string {
	var report strings.Builder
	for _, process := range n.processes {
		state := "runs"
		if !process.Running() {
			state = fmt.Sprintf("has ended: %v", process.Err())
		}
		fmt.Fprintf(&report, "%s %s\n%s\n", process.Name, state, proc.Tail(process.Log, logged))
	}
	return report.String()
}

// Import loads the images of an OCI archive that are for this machine's architecture.
func (n *Node) Import(ctx context.Context, archive string) error {
	path, err := filepath.Abs(archive)
	if err != nil {
		return fmt.Errorf("import %s: %w", archive, err)
	}
	return n.ctr(ctx, "--namespace", "k8s.io", "images", "import", path)
}

// Tag gives an image another name.
func (n *Node) Tag(ctx context.Context, name, other string) error {
	return n.ctr(ctx, "--namespace", "k8s.io", "images", "tag", "--force", name, other)
}

func (n *Node) ctr(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(n.opts.Tools, ctr), append([]string{"--address", filepath.Join(n.opts.Dir, "containerd.sock")}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr %v: %w: %s", args, err, bytes.TrimSpace(out))
	}
	return nil
}

// run starts one of the node's programs, with the others in its PATH.
func (n *Node) run(name string, args ...string) (*proc.Process, error) {
	process, err := proc.Start(proc.Spec{
		Name: name, Binary: filepath.Join(n.opts.Tools, name), Args: args, LogDir: n.opts.Dir,
		Env: []string{"PATH=" + n.opts.Tools + ":" + os.Getenv("PATH"), "HOME=" + n.opts.Dir},
	})
	if err != nil {
		return nil, err
	}
	n.processes = append(n.processes, process)
	return process, nil
}
