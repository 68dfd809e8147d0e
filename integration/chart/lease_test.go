package chart_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/penstock-cdc/penstock/integration/controlplane"
)

// leases returns a client of the Leases with the rights of the release's publishers.
func (r *release) leases() coordinationv1client.LeaseInterface {
	r.t.Helper()
	token := kubectl(r.t, "--namespace", r.namespace, "create", "token", publisher)
	client, err := coordinationv1client.NewForConfig(suite.control.Client(controlplane.Account{
		Namespace: r.namespace, Name: publisher, Token: strings.TrimSpace(token),
	}))
	must(r.t, err)
	return client.Leases(r.namespace)
}

// held returns a Lease as a leader writes it.
func held() coordinationv1.LeaseSpec {
	holder, seconds, now := publisher+"-0_uid", int32(15), metav1.NowMicro()
	return coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now}
}

// lead takes the Lease of the release like a publisher. check checks that helm has not
// changed the leader.
func (r *release) lead() (check func()) {
	r.t.Helper()
	leases := r.leases()
	lease, err := leases.Get(r.t.Context(), publisher, metav1.GetOptions{})
	must(r.t, err)
	if lease.Spec.HolderIdentity != nil {
		r.t.Errorf("the chart gives the Lease to %s", *lease.Spec.HolderIdentity)
	}
	lease.Spec = held()
	lease, err = leases.Update(r.t.Context(), lease, metav1.UpdateOptions{})
	must(r.t, err)
	return func() {
		r.t.Helper()
		now, err := leases.Get(r.t.Context(), publisher, metav1.GetOptions{})
		must(r.t, err)
		if now.UID != lease.UID || now.Spec.String() != lease.Spec.String() {
			r.t.Errorf("helm has taken the Lease from %s: %s", lease.Spec.String(), now.Spec.String())
		}
	}
}

// cling makes the Lease again whenever it is deleted, like a leader, until that is
// forbidden. The channel then yields nil.
func (r *release) cling() <-chan error {
	r.t.Helper()
	leases := r.leases()
	ended := make(chan error, 1)
	ctx, cancel := context.WithTimeout(r.t.Context(), settleTimeout)
	go func() {
		defer cancel()
		tick := time.NewTicker(poll)
		defer tick.Stop()
		for {
			_, err := leases.Get(ctx, publisher, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: publisher}, Spec: held()}, metav1.CreateOptions{})
			}
			if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
				ended <- nil
				return
			}
			if err != nil {
				ended <- fmt.Errorf("neither holds its Lease nor is forbidden to: %w", err)
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	return ended
}
