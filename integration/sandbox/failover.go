package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/proc"
)

// failoverPoll is the resolution of the measured failover time.
const failoverPoll = 20 * time.Millisecond

// killLeader kills the leading publisher with SIGKILL, calls killed, and waits until the
// broker has accepted the first event of its successor. It returns the time between the
// two, and an error if that takes longer than stallTimeout.
func killLeader(ctx context.Context, pipeline *harness.Pipeline, view *View, killed func()) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stallTimeout, fmt.Errorf("not within %s", stallTimeout))
	defer cancel()
	leader, err := pipeline.AwaitLeader(ctx)
	if err != nil {
		return 0, err
	}
	leader.Kill()
	begun := time.Now()
	killed()
	view.Note(fmt.Sprintf("killed the leader %s with SIGKILL", leader.Name))

	err = proc.Await(ctx, failoverPoll, "a successor of "+leader.Name, func() (bool, error) {
		if successor, err := pipeline.Leader(ctx); err == nil {
			metrics, err := successor.Metrics(ctx)
			if err == nil && metrics.Sum("penstock_publisher_events_published_total", "result", "published") > 0 {
				took = time.Since(begun)
				view.Note(fmt.Sprintf("%s leads and publishes, %s later", successor.Name, took.Round(time.Millisecond)))
				return true, nil
			}
		}
		return false, nil
	})
	return took, err
}
