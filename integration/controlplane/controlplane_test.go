package controlplane_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/penstock-cdc/penstock/integration/controlplane"
)

func start(t *testing.T, opts controlplane.Options) *controlplane.ControlPlane {
	t.Helper()
	tools, err := controlplane.Tools()
	if errors.Is(err, controlplane.ErrNoTools) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	opts.Tools, opts.Dir = tools, t.TempDir()
	cp, err := controlplane.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cp.Stop)
	return cp
}

func TestAccountsAndRestart(t *testing.T) {
	t.Parallel()
	cp := start(t, controlplane.Options{})
	account, err := cp.ServiceAccount(t.Context(), "here", "reader", rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"mine"}, Verbs: []string{"get"},
	})
	if err != nil {
		t.Fatal(err)
	}
	core, err := corev1client.NewForConfig(cp.Client(account))
	if err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		if _, err := core.ConfigMaps("here").Get(t.Context(), "mine", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("what the role allows ends with %v, not with not found", err)
		}
		if _, err := core.ConfigMaps("here").Get(t.Context(), "other", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("what the role does not allow ends with %v", err)
		}
	}
	check()

	cp.APIServer().Kill()
	if err := cp.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	check()
}

func TestNodesRunPods(t *testing.T) {
	t.Parallel()
	cp := start(t, controlplane.Options{Nodes: 2})
	core, err := corev1client.NewForConfig(cp.Admin())
	if err != nil {
		t.Fatal(err)
	}
	pods := core.Pods(metav1.NamespaceDefault)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watch, err := pods.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	_, err = pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for event := range watch.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok && pod.Status.Phase == corev1.PodRunning {
			return
		}
	}
	t.Error("the watch ended before the pod ran")
}
