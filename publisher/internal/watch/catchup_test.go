package watch_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// TestRequestWaitsWhileServerAnswersPings: only the request of a dead connection is
// abandoned, after a timeout that doubles.
func TestRequestWaitsWhileServerAnswersPings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore(1)
		store.hang = true
		var beat beats
		run := start(t, store, atStart, watch.Options{Silence: 30 * time.Second, CatchUp: 4 * time.Minute, Beat: beat.beat}, &recorder{})
		testkit.Pass(20 * time.Minute)
		if longest := beat.pause(); longest > 2*time.Second {
			t.Errorf("no beat for %v although the server answers pings", longest)
		}
		// The requests begin at once, after 4 min, and after 8 min more.
		if n := store.opened(); n != 3 {
			t.Errorf("opened %d times in 20 min, want 3", n)
		}
		store.with(func() { store.hang = false })
		testkit.Pass(10 * time.Minute)
		if got := run.seen(); !slices.Equal(got, numbers(1)) {
			t.Errorf("handled %v, want the event once the server answers", got)
		}
		run.end(t)
	})
}

// TestRequestEndsIfServerAnswersNoPings: if the server answers no ping, there is no
// reason to wait for it.
func TestRequestEndsIfServerAnswersNoPings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore(1)
		store.hang, store.deaf = true, true
		var beat beats
		began := time.Now()
		run := start(t, store, atStart, watch.Options{Silence: 30 * time.Second, CatchUp: 2 * time.Minute, Beat: beat.beat}, &recorder{})
		testkit.Pass(5 * time.Minute)
		if after := beat.last().Sub(began); after < 59*time.Second || after > 61*time.Second {
			t.Errorf("beats ended after %v, want twice the silence", after)
		}
		if n := store.opened(); n < 8 || n > 11 {
			t.Errorf("opened %d times in 5 min, want once for each 30 s", n)
		}
		store.with(func() { store.hang, store.deaf = false, false })
		testkit.Pass(3 * time.Minute)
		if got := run.seen(); !slices.Equal(got, numbers(1)) || beat.ago() > 2*time.Second {
			t.Errorf("handled %v, last beat %v ago", got, beat.ago())
		}
		run.end(t)
	})
}

// TestStreamFarBehindIsNotReopened: mongos answers every second. The position in its
// answers does not change while the slowest shard scans its oplog.
func TestStreamFarBehindIsNotReopened(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore(1)
		store.frozen, store.behind = true, time.Hour
		var beat beats
		registry := prometheus.NewRegistry()
		options := watch.Options{CatchUp: 30 * time.Minute, Metrics: watch.NewMetrics(registry), Beat: beat.beat}
		run := start(t, store, atStart, options, &recorder{})
		testkit.Pass(29 * time.Minute)
		if n := store.opened(); n != 1 || beat.pause() > 2*time.Second {
			t.Errorf("opened %d times, no beat for %v; want once, and to stay alive", n, beat.pause())
		}
		if lag := testkit.Metric(t, registry, "penstock_publisher_stream_lag_seconds"); lag < 3500 || lag > 3700 {
			t.Errorf("lag is %v s, want the hour that the position is behind", lag)
		}
		if got := testkit.Metric(t, registry, "penstock_publisher_stream_caught_up"); got != 0 {
			t.Error("caught up an hour behind")
		}
		testkit.Pass(5 * time.Minute)
		if n := store.opened(); n != 2 {
			t.Errorf("opened %d times in 34 min, want a second time", n)
		}
		run.end(t)
	})
}

func TestCatchingUpIsShownByAMetricAndLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore(9)
		store.delay = 90 * time.Second
		registry := prometheus.NewRegistry()
		var log bytes.Buffer
		options := watch.Options{Metrics: watch.NewMetrics(registry), Logger: zerolog.New(&log)}
		r := &recorder{}
		run := start(t, store, atStart, options, r)
		caughtUp := func() float64 { return testkit.Metric(t, registry, "penstock_publisher_stream_caught_up") }
		testkit.Pass(4 * time.Minute)
		if caughtUp() != 0 {
			t.Error("caught up with changes left to read")
		}
		testkit.Pass(3 * time.Minute)
		if caughtUp() != 1 {
			t.Error("not caught up at the end of the stream")
		}
		// The handler blocks for minutes, so the stream is behind, however fast it reads.
		block := make(chan struct{})
		r.mu.Lock()
		r.block = block
		r.mu.Unlock()
		store.with(func() { store.delay = 0 })
		for range 4000 {
			store.insert()
		}
		testkit.Pass(5 * time.Minute)
		run.end(t)
		if caughtUp() != 0 {
			t.Error("a stopped stream is caught up")
		}
		for _, want := range []string{`"message":"change stream has caught up"`, `"message":"change stream has fallen behind; catching up"`} {
			if n := strings.Count(log.String(), want); n != 1 {
				t.Errorf("logged %s %d times in\n%s", want, n, log.String())
			}
		}
	})
}

// TestLagStartsFromTheCheckpoint: a publisher that is hours behind must not show a lag
// of 0 until the first reply.
func TestLagStartsFromTheCheckpoint(t *testing.T) {
	t.Parallel()
	// The virtual clock starts at this time.
	hoursAgo := bson.Timestamp{T: uint32(time.Date(1999, 12, 31, 21, 0, 0, 0, time.UTC).Unix()), I: 1}
	ofToken := testkit.Raw(bson.M{"_data": fmt.Sprintf("82%08X%08X2B0229296E04", hoursAgo.T, 1)})
	for name, from := range map[string]watch.Position{
		"a time":                      {Time: hoursAgo},
		"a token that shows its time": {Token: ofToken, Time: bson.Timestamp{T: hoursAgo.T - 7200}},
		"a token that shows none":     {Token: token(0, 0), Time: hoursAgo},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newFakeStore(0)
				store.hang = true
				registry := prometheus.NewRegistry()
				run := start(t, store, from, watch.Options{Metrics: watch.NewMetrics(registry)}, &recorder{})
				testkit.Pass(time.Minute)
				if lag := testkit.Metric(t, registry, "penstock_publisher_stream_lag_seconds"); lag != 3*3600+60 {
					t.Errorf("lag is %v s, want 3 h and a minute", lag)
				}
				run.end(t)
			})
		})
	}
}
