package controlplane

import (
	"context"
	"fmt"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// tokenKey names the files of the key that signs service accounts' tokens.
const tokenKey = "service-accounts"

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
