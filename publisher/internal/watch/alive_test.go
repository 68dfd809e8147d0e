package watch_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

func TestSilentStreamIsReopenedAndHeartbeatsStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore(1)
		registry := prometheus.NewRegistry()
		var beat beats
		options := watch.Options{Silence: 30 * time.Second, Metrics: watch.NewMetrics(registry), Beat: beat.beat}
		run := start(t, store, atStart, options, &recorder{})
		testkit.Pass(5 * time.Minute)
		if beat.ago() > 2*time.Second || store.opened() != 1 {
			t.Fatalf("an idle stream: last beat %v ago, opened %d times", beat.ago(), store.opened())
		}
		if lag := testkit.Metric(t, registry, "penstock_publisher_stream_lag_seconds"); lag > 1.5 {
			t.Errorf("an idle stream lags %v s", lag)
		}

		store.with(func() { store.frozen = true })
		froze := time.Now()
		testkit.Pass(5*time.Minute + time.Second)
		if after := beat.last().Sub(froze); after < 59*time.Second || after > 61*time.Second {
			t.Errorf("beats ended after %v, want twice the silence", after)
		}
		if n := store.opened(); n < 9 || n > 11 {
			t.Errorf("opened %d times, want once for each 30 s", n)
		}
		if lag := testkit.Metric(t, registry, "penstock_publisher_stream_lag_seconds"); lag < 270 {
			t.Errorf("a silent stream lags %v s", lag)
		}

		store.with(func() { store.frozen = false })
		testkit.Pass(3 * time.Second)
		if beat.ago() > 2*time.Second {
			t.Errorf("last beat %v ago although the stream moves again", beat.ago())
		}
		run.end(t)
		options.Metrics.End()
		if lag := testkit.Metric(t, registry, "penstock_publisher_stream_lag_seconds"); lag != 0 {
			t.Errorf("a term that is over lags %v s", lag)
		}
	})
}

func TestBusyHandlerStopsReadingAndKeepsHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore(0)
		for n := range 1000 {
			store.append("insert", bson.M{"fullDocument": bson.M{"eventId": n + 1, "payload": strings.Repeat("x", 1000)}})
		}
		var beat beats
		registry := prometheus.NewRegistry()
		r := &recorder{block: make(chan struct{})}
		run := start(t, store, atStart, watch.Options{PrefetchBytes: 64 << 10, Metrics: watch.NewMetrics(registry), Beat: beat.beat}, r)
		testkit.Pass(20 * time.Minute)
		// Each event takes 1,000 bytes and its overhead. A batch has three events, and
		// one batch waits for memory.
		if read := testkit.Metric(t, registry, "penstock_publisher_events_read_total"); read < 30 || read > 64 {
			t.Errorf("read %v events ahead, want what 64 KiB hold", read)
		}
		if beat.ago() > 2*time.Second || store.opened() != 1 {
			t.Errorf("last beat %v ago, opened %d times: waiting for the handler is no silence", beat.ago(), store.opened())
		}
		close(r.block)
		synctest.Wait()
		if got := run.seen(); !slices.Equal(got, numbers(1000)) {
			t.Errorf("handled %d events", len(got))
		}
		run.end(t)
	})
}

func TestHeartbeatsContinueWhileTheHandlerFinishesAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore(6)
		store.faults[5] = mongo.CommandError{Code: 286, Message: "no longer in the oplog"}
		var beat beats
		r := &recorder{block: make(chan struct{})}
		run := start(t, store, atStart, watch.Options{Beat: beat.beat}, r)
		testkit.Pass(20 * time.Minute)
		if beat.ago() > 2*time.Second {
			t.Errorf("last beat %v ago although the reader only waits for the handler", beat.ago())
		}
		close(r.block)
		if err := <-run.result; !errors.Is(err, watch.ErrHistoryLost) {
			t.Errorf("ended with %v", err)
		}
	})
}
