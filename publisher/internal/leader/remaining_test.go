package leader_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/leader"
)

// TestRemainingTimeOfATerm loses the lease in the middle of a drain.
func TestRemainingTimeOfATerm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := leader.DefaultConfig()
		var leading, stopped, drained, lost time.Duration
		c := start(t, &lockStore{}, func(ctx context.Context, term *leader.Term) error {
			leading = term.Remaining()
			<-ctx.Done()
			stopped = term.Remaining()
			<-time.After(time.Second)
			drained = term.Remaining()
			<-term.Held().Done()
			lost = term.Remaining()
			return nil
		})
		testkit.Pass(time.Minute)
		c.link.set(silent)
		c.finish(t)
		if leading < 1000*time.Hour {
			t.Errorf("%v are left to work that need not end", leading)
		}
		if stopped != config.StopTimeout || drained != config.StopTimeout-time.Second {
			t.Errorf("%v are left at the stop and %v after a second, want %v and a second less", stopped, drained, config.StopTimeout)
		}
		if lost != config.AbortTimeout() {
			t.Errorf("%v are left when the lease is lost, want %v", lost, config.AbortTimeout())
		}
	})
}
