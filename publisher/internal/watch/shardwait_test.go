package watch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// TestIdleShardHasItsOwnMetric: a shard without writes delays the stream by some seconds.
// That is no lag, and the lag does not show it.
func TestIdleShardHasItsOwnMetric(t *testing.T) {
	t.Parallel()
	const wait, lag = "penstock_publisher_stream_shard_wait_seconds", "penstock_publisher_stream_lag_seconds"
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		metrics := watch.NewMetrics(registry)
		store := newFakeStore(1)
		store.behind = 9 * time.Second
		run := start(t, store, atStart, watch.Options{Metrics: metrics}, &recorder{})
		testkit.Pass(5 * time.Second)
		if got := testkit.Metric(t, registry, wait); got != 9 {
			t.Errorf("waits %v s for a shard, want 9", got)
		}
		if got := testkit.Metric(t, registry, lag); got > 1.5 {
			t.Errorf("lag is %v s although all available changes are read", got)
		}
		// The shard has written its noop entry.
		store.with(func() { store.behind = 0 })
		testkit.Pass(2 * time.Second)
		if got := testkit.Metric(t, registry, wait); got != 0 {
			t.Errorf("waits %v s for a shard that has gone on", got)
		}
		// Far behind: the server scans its oplog.
		store.with(func() { store.behind = time.Hour })
		testkit.Pass(2 * time.Second)
		if w, l := testkit.Metric(t, registry, wait), testkit.Metric(t, registry, lag); w != 0 || l < 3500 {
			t.Errorf("an hour behind, it waits %v s for a shard and lags %v s", w, l)
		}
		store.with(func() { store.behind = 9 * time.Second })
		testkit.Pass(2 * time.Second)
		run.end(t)
		metrics.End()
		if got := testkit.Metric(t, registry, wait); got != 0 {
			t.Errorf("waits %v s for a shard after the term", got)
		}
	})
}
