package kube_test

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// The other tests show that a publisher's rights are enough; this one, that they are
// no more.
func TestRights(t *testing.T) {
	t.Parallel()
	s := newScenario(t, defaults)
	client := s.control.Client(s.account)
	coordination, err := coordinationv1client.NewForConfig(client)
	must(t, err)
	core, err := corev1client.NewForConfig(client)
	must(t, err)
	leases, secrets := coordination.Leases(s.account.Namespace), core.Secrets(s.account.Namespace)

	if _, err := leases.Get(t.Context(), leaseName, metav1.GetOptions{}); err != nil {
		t.Errorf("read the Lease: %v", err)
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
