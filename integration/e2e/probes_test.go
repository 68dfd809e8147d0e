package e2e_test

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// While MongoDB answers pings late, clients that ask /readyz again and again must not take
// the connections that the leader needs to renew its lease.
func TestProbesDoNotTakeTheLease(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	s := newScenario(t, shop.New(200, 73))
	store := capability[pingDelayer](s, "delay pings")
	s.start(1, 1)
	leader, epoch := s.leader(), s.epoch()
	version := func() int64 {
		lease, err := s.state.Collection("leader_leases").FindOne(t.Context(), bson.D{}).Raw()
		if err != nil {
			return 0
		}
		version, _ := lease.Lookup("version").AsInt64OK()
		return version
	}
	store.HangPings()
	ctx, stop := context.WithCancel(t.Context())
	var probes sync.WaitGroup
	client := http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}}
	for range 200 {
		probes.Go(func() {
			again := time.NewTicker(100 * time.Millisecond)
			defer again.Stop()
			for ctx.Err() == nil {
				<-again.C
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+leader.Admin+"/readyz", nil)
				if err != nil {
					t.Error(err)
					return
				}
				if response, err := client.Do(request); err == nil {
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
			}
		})
	}
	// The leader renews each second, and would stop after 4 s without a renewal.
	const renewals = 7
	enough := version() + renewals
	s.await("renewals of the lease", func() bool { return version() >= enough || s.epoch() != epoch })
	stop()
	probes.Wait()
	client.CloseIdleConnections()
	store.HealStore()
	if lost := s.leasesLost(); lost > 0 || s.epoch() != epoch {
		t.Errorf("the leader has lost its lease %d times, and the epoch went from %d to %d", lost, epoch, s.epoch())
	}
	s.load(time.Second)
	s.invariants()
}
