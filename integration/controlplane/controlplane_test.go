package controlplane_test

import (
	"errors"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/penstock-cdc/penstock/integration/controlplane"
)

func start(t *testing.T) *controlplane.ControlPlane {
	t.Helper()
	tools, err := controlplane.Tools()
	if errors.Is(err, controlplane.ErrNoTools) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	cp, err := controlplane.Start(t.Context(), controlplane.Options{Tools: tools, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cp.Stop)
	return cp
}

func TestAccountsAndRestart(t *testing.T) {
	t.Parallel()
	cp := start(t)
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
