package kube_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/penstock-cdc/penstock/integration/controlplane"
)

// chart is the Helm chart, from this package's folder.
const chart = "../../charts/penstock"

// rules returns the rules of the chart's Role for a publisher that creates its Lease.
func rules(t *testing.T, control *controlplane.ControlPlane) []rbacv1.PolicyRule {
	t.Helper()
	objects, err := control.Command(t.Context(), controlplane.Helm, "template", "penstock", chart,
		"--values", chart+"/ci/minimal.yaml", "--set", "publisher.lease.create=false", "--show-only", "templates/publisher/rbac.yaml").Output()
	must(t, err)
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(objects), len(objects))
	for {
		var role rbacv1.Role
		if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
			t.Fatalf("the chart makes no Role:\n%s", objects)
		} else if err != nil {
			t.Fatal(err)
		}
		if role.Kind == "Role" {
			return role.Rules
		}
	}
}

// The other tests show that a publisher's rights are sufficient. This test shows that there
// are no others. The Lease, which the publisher's own account can read, shows who leads.
func TestPublisherHasNoOtherRights(t *testing.T) {
	t.Parallel()
	s := newScenario(t, defaults)
	client := s.control.Client(s.account)
	coordination, err := coordinationv1client.NewForConfig(client)
	must(t, err)
	core, err := corev1client.NewForConfig(client)
	must(t, err)
	leases, secrets := coordination.Leases(s.account.Namespace), core.Secrets(s.account.Namespace)

	lease, err := leases.Get(t.Context(), leaseName, metav1.GetOptions{})
	must(t, err)
	_, identity := s.checkpoint()
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder != identity {
		t.Errorf("the Lease is held by %v, the checkpoint by %s", holder, identity)
	}
	other, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{})
	if err != nil {
		t.Errorf("create a Lease: %v", err)
	}
	for what, attempt := range map[string]func() error{
		"read another Lease":   func() error { _, err := leases.Get(t.Context(), "other", metav1.GetOptions{}); return err },
		"update another Lease": func() error { _, err := leases.Update(t.Context(), other, metav1.UpdateOptions{}); return err },
		"list Leases":          func() error { _, err := leases.List(t.Context(), metav1.ListOptions{}); return err },
		"delete the Lease":     func() error { return leases.Delete(t.Context(), leaseName, metav1.DeleteOptions{}) },
		"create a Lease elsewhere": func() error {
			_, err := coordination.Leases(metav1.NamespaceDefault).Create(t.Context(),
				&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName}}, metav1.CreateOptions{})
			return err
		},
		"create an Event": func() error {
			_, err := core.Events(s.account.Namespace).Create(t.Context(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "any"}}, metav1.CreateOptions{})
			return err
		},
		"read a Secret": func() error { _, err := secrets.Get(t.Context(), "any", metav1.GetOptions{}); return err },
		"list Secrets":  func() error { _, err := secrets.List(t.Context(), metav1.ListOptions{}); return err },
	} {
		if err := attempt(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: it is not forbidden: %v", what, err)
		}
	}
	_, late := s.invariants()
	s.neverLate(late)
}
