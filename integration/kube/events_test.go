package kube_test

import (
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// The Lease and its events show who led and who leads.
func TestHolderAndEvents(t *testing.T) {
	t.Parallel()
	s := newScenario(t, defaults)
	coordination, err := coordinationv1client.NewForConfig(s.control.Admin())
	must(t, err)
	core, err := corev1client.NewForConfig(s.control.Admin())
	must(t, err)
	leases := coordination.Leases(s.account.Namespace)

	first := s.awaitTermAfter(0)
	_, identity := s.checkpoint()
	lease, err := leases.Get(t.Context(), leaseName, metav1.GetOptions{})
	must(t, err)
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder != identity || !strings.HasPrefix(*holder, first.leader.Name) {
		t.Errorf("the Lease is held by %v, the checkpoint by %s, and %s leads", holder, identity, first.leader.Name)
	}
	must(t, first.leader.Signal(syscall.SIGTERM))
	second := s.awaitTermAfter(first.epoch)
	s.exits(first.leader)

	for _, message := range []string{
		first.leader.Name + "* became leader",
		first.leader.Name + "* stopped leading",
		second.leader.Name + "* became leader",
	} {
		name, does, _ := strings.Cut(message, "*")
		s.await("an event that says: "+message, func() bool {
			events, err := core.Events(s.account.Namespace).List(t.Context(), metav1.ListOptions{})
			must(t, err)
			for _, event := range events.Items {
				if strings.HasPrefix(event.Message, name) && strings.HasSuffix(event.Message, does) {
					return event.InvolvedObject.Kind == "Lease" && event.InvolvedObject.Name == leaseName &&
						event.InvolvedObject.UID == lease.UID && event.Type == corev1.EventTypeNormal
				}
			}
			return false
		})
	}
	_, late := s.invariants()
	s.neverLate(late)
}
