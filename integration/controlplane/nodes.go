package controlplane

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// tokenKey names the files of the key that signs service accounts' tokens.
const tokenKey = "service-accounts"

// podOnce is a stage of kwok.
//
//go:embed pod-once.yaml
var podOnce []byte

// zones is the number of zones of the nodes.
const zones = 3

func (c *ControlPlane) startControllers(ctx context.Context) error {
	kubeconfig, err := c.componentKubeconfig(controllerManager)
	if err != nil {
		return err
	}
	process, err := c.runComponent(controllerManager,
		"--kubeconfig="+kubeconfig,
		"--leader-elect=false", "--secure-port=0", "--bind-address=127.0.0.1",
		"--use-service-account-credentials",
		"--service-account-private-key-file="+filepath.Join(c.opts.Dir, tokenKey+".key"),
		"--root-ca-file="+c.cluster.path(),
		"--horizontal-pod-autoscaler-sync-period=2s",
		// Real pods are busy when they start; an autoscaler ignores their CPU for this
		// time.
		"--horizontal-pod-autoscaler-cpu-initialization-period=20s",
		"--horizontal-pod-autoscaler-initial-readiness-delay=5s",
	)
	if err != nil {
		return err
	}
	core, err := corev1client.NewForConfig(c.client)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	// Controllers make this account in every namespace, so it shows that they work.
	return process.AwaitReady(ctx, func(ctx context.Context) error {
		_, err := core.ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func (c *ControlPlane) startScheduler() error {
	kubeconfig, err := c.componentKubeconfig(scheduler)
	if err != nil {
		return err
	}
	_, err = c.runComponent(scheduler,
		"--kubeconfig="+kubeconfig, "--leader-elect=false", "--secure-port=0", "--bind-address=127.0.0.1")
	return err
}

// startNodes creates the nodes, which kwok simulates.
func (c *ControlPlane) startNodes(ctx context.Context) error {
	kubeconfig, err := c.kubeconfigFile(kwok, c.admin)
	if err != nil {
		return err
	}
	once := filepath.Join(c.opts.Dir, "pod-once.yaml")
	if err := os.WriteFile(once, podOnce, 0o600); err != nil {
		return fmt.Errorf("write a stage of kwok's: %w", err)
	}
	process, err := c.runComponent(kwok,
		"--kubeconfig="+kubeconfig,
		"--config="+filepath.Join(c.opts.Tools, kwokStages), "--config="+once,
		"--manage-all-nodes", "--node-lease-duration-seconds=40")
	if err != nil {
		return err
	}
	core, err := corev1client.NewForConfig(c.client)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	for n := range c.opts.Nodes {
		if _, err := core.Nodes().Create(ctx, node(n), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create node %d: %w", n, err)
		}
	}
	return process.AwaitReady(ctx, func(ctx context.Context) error {
		nodes, err := core.Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return !ready(n) }) {
			return errors.New("not all nodes are ready")
		}
		return nil
	})
}

func node(n int) *corev1.Node {
	name := fmt.Sprintf("node-%d", n)
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("16"),
		corev1.ResourceMemory: resource.MustParse("64Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{
				corev1.LabelHostname:     name,
				corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", n%zones),
				corev1.LabelOSStable:     "linux",
				corev1.LabelArchStable:   "amd64",
			},
		},
		Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
}

func ready(n corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
}
