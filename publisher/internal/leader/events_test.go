package leader_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-cdc/penstock/publisher/internal/leader"
)

// A stop does not wait for an API server that hangs, and leaves no goroutine that still
// sends.
func TestStopDropsEventsThatItHasNoTimeToSend(t *testing.T) {
	t.Parallel()
	server := newLeaseServer(t)
	hang := server.hangNext()
	defer close(hang)
	var log bytes.Buffer
	events, err := leader.NewKubernetesEvents(leader.KubernetesConfig{
		Name: "publisher", Identity: "a", Kubeconfig: server.kubeconfig(t), RequestTimeout: time.Hour,
	}, zerolog.New(zerolog.SyncWriter(&log)))
	if err != nil {
		t.Fatal(err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "publisher", Namespace: "prod"}}
	for range 3 {
		events.Eventf(lease, "Normal", "LeaderElection", "%s became leader", "a")
	}
	<-server.arrived
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	events.Close(ctx)
	// No goroutine writes to it any more.
	if got := strings.Count(log.String(), "Kubernetes event not recorded"); got != 3 {
		t.Errorf("%d events are logged, want 3:\n%s", got, log.String())
	}
}
