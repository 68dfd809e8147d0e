package term

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// TestLagCountsFromTheCheckpointDuringAScan: during a scan no stream is read, so the events
// after the checkpoint are not published.
func TestLagCountsFromTheCheckpointDuringAScan(t *testing.T) {
	t.Parallel()
	// The clock of a synctest bubble starts at midnight UTC on 2000-01-01.
	hoursAgo := bson.Timestamp{T: uint32(time.Date(1999, 12, 31, 21, 0, 0, 0, time.UTC).Unix()), I: 1}
	for name, checkpoint := range map[string]bson.M{
		"a scan that goes on":    {"scan": bson.M{"operationTime": hoursAgo}},
		"a history that is lost": {"token": bson.M{"_data": "00000000.0"}, "clusterTime": hoursAgo},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSetup(t, random())
				registry := prometheus.NewRegistry()
				s.runner.watching.Metrics = watch.NewMetrics(registry)
				s.topic.stalled = make(chan struct{})
				s.store.fill("a", 200, false)
				s.store.trim(1)
				checkpoint["epoch"] = int64(1)
				s.checkpoint.Set(t, bson.D{{Key: "_id", Value: "events"}}, checkpoint)
				term := s.lead(t)
				pass(10 * time.Minute)
				if lag := testkit.Metric(t, registry, "penstock_publisher_stream_lag_seconds"); lag < 3*3600+600 || lag > 3*3600+601 {
					t.Errorf("lag is %v s, want 3 h and 10 min", lag)
				}
				if err := term.end(term.abort); err != nil {
					t.Error(err)
				}
				if lag := testkit.Metric(t, registry, "penstock_publisher_stream_lag_seconds"); lag != 0 {
					t.Errorf("after the term, lag is %v s", lag)
				}
			})
		})
	}
}
