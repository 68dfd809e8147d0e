package kube_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// The Lease shows who leads.
func TestHolder(t *testing.T) {
	t.Parallel()
	s := newScenario(t, defaults)
	coordination, err := coordinationv1client.NewForConfig(s.control.Admin())
	must(t, err)
	first := s.awaitTermAfter(0)
	_, identity := s.checkpoint()
	lease, err := coordination.Leases(s.account.Namespace).Get(t.Context(), leaseName, metav1.GetOptions{})
	must(t, err)
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder != identity || !strings.HasPrefix(*holder, first.leader.Name) {
		t.Errorf("the Lease is held by %v, the checkpoint by %s, and %s leads", holder, identity, first.leader.Name)
	}
	_, late := s.invariants()
	s.neverLate(late)
}
