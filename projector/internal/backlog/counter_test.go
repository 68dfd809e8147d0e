package backlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/go-amqp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/backlog"
)

const interval = 30 * time.Second

// counting is a running counter with its metrics and its log.
type counting struct {
	*broker
	registry *prometheus.Registry
	log      *bytes.Buffer
	stop     context.CancelFunc
}

// start runs a counter in the test's synctest bubble.
func start(t *testing.T, b *broker, changes ...func(*backlog.Options)) *counting {
	t.Helper()
	c := &counting{broker: b, registry: prometheus.NewRegistry(), log: &bytes.Buffer{}}
	o := backlog.Options{Dial: b.dial, Interval: interval, Limit: 5000, Registerer: c.registry, Logger: zerolog.New(c.log)}
	for _, change := range changes {
		change(&o)
	}
	c.stop = testkit.Start(t, backlog.New(o).Run)
	return c
}

// end stops the counter, and checks that it has closed its connections.
func (c *counting) end(t *testing.T) {
	t.Helper()
	c.stop()
	if c.dialed != c.closed {
		t.Errorf("%d connections were opened, %d closed", c.dialed, c.closed)
	}
}

// shows expects the value of the gauge; "absent" means none.
func (c *counting) shows(t *testing.T, want string) {
	t.Helper()
	const name = "penstock_projector_backlog_sessions"
	got := "absent"
	if n, found := testkit.FindMetric(t, c.registry, name); found {
		got = fmt.Sprint(n)
	}
	if got != want {
		t.Errorf("%s is %s, want %s", name, got, want)
	}
}

// results expects the numbers of counts by result.
func (c *counting) results(t *testing.T, ok, busy, failed int) {
	t.Helper()
	want := fmt.Sprintf(`# HELP penstock_projector_backlog_counts_total Attempts to count the sessions that have messages: ok, busy (the broker throttles) or failed.
# TYPE penstock_projector_backlog_counts_total counter
penstock_projector_backlog_counts_total{result="busy"} %d
penstock_projector_backlog_counts_total{result="failed"} %d
penstock_projector_backlog_counts_total{result="ok"} %d
`, busy, failed, ok)
	if err := testutil.GatherAndCompare(c.registry, strings.NewReader(want), "penstock_projector_backlog_counts_total"); err != nil {
		t.Error(err)
	}
}

func TestCounterReadsEveryPageUpToTheLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ sessions, shown, pages int }{
		{0, 0, 1}, {1, 1, 1}, {99, 99, 1}, {100, 100, 2}, {250, 250, 3},
		{299, 299, 3}, {300, 300, 3}, {301, 300, 3}, {10_000, 300, 3},
	} {
		t.Run(fmt.Sprint(test.sessions), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := start(t, &broker{sessions: test.sessions}, func(o *backlog.Options) { o.Limit = 300 })
				defer c.end(t)
				synctest.Wait()
				testkit.Pass(interval / 4)
				c.shows(t, fmt.Sprint(test.shown))
				if c.pages != test.pages {
					t.Errorf("%d pages were read, want %d", c.pages, test.pages)
				}
				c.results(t, 1, 0, 0)
			})
		})
	}
}

func TestCountsAreShownByTheirResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		busy := &amqp.Error{Condition: "com.microsoft:server-busy", Description: "Error code : 50009."}
		c := start(t, &broker{sessions: 7, err: busy})
		defer c.end(t)
		testkit.Pass(interval / 4)
		c.results(t, 0, 1, 0)
		c.shows(t, "absent")
		c.set(func(b *broker) { b.err = nil })
		testkit.Pass(interval * 5 / 4)
		c.results(t, 1, 1, 0)
		c.shows(t, "7")
		c.set(func(b *broker) { b.err = errors.New("not now") })
		testkit.Pass(10 * interval)
		c.shows(t, "absent")
		if !strings.Contains(c.log.String(), "sessions with messages not counted; retrying. Autoscaling ignores this process until then") {
			t.Errorf("the log is %s", c.log)
		}
	})
}
