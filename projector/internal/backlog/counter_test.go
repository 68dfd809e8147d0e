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

	"github.com/penstock-cdc/penstock/projector/internal/backlog"
)

const interval = 30 * time.Second

// counting is a running counter with its metrics and its log.
type counting struct {
	*broker
	registry *prometheus.Registry
	log      *bytes.Buffer
	stop     context.CancelFunc
	done     chan error
}

// start runs a counter in the test's synctest bubble.
func start(t *testing.T, b *broker, changes ...func(*backlog.Options)) *counting {
	t.Helper()
	c := &counting{broker: b, registry: prometheus.NewRegistry(), log: &bytes.Buffer{}, done: make(chan error, 1)}
	o := backlog.Options{Dial: b.dial, Interval: interval, Registerer: c.registry, Logger: zerolog.New(c.log)}
	for _, change := range changes {
		change(&o)
	}
	counter := backlog.New(o)
	var ctx context.Context
	ctx, c.stop = context.WithCancel(t.Context())
	go func() { c.done <- counter.Run(ctx) }()
	return c
}

// end stops the counter, and checks that it has closed its connections.
func (c *counting) end(t *testing.T) {
	t.Helper()
	c.stop()
	if err := <-c.done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if c.dialed != c.closed {
		t.Errorf("%d connections were opened, %d closed", c.dialed, c.closed)
	}
}

// pass lets virtual time pass, and waits until all goroutines are blocked.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// shows expects the value of the gauge; "absent" means none.
func (c *counting) shows(t *testing.T, want string) {
	t.Helper()
	const name = "penstock_projector_backlog_sessions"
	got := "absent"
	families, err := c.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			got = fmt.Sprint(family.GetMetric()[0].GetGauge().GetValue())
		}
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
				pass(interval / 4)
				c.shows(t, fmt.Sprint(test.shown))
				if c.pages != test.pages {
					t.Errorf("%d pages were read, want %d", c.pages, test.pages)
				}
				c.results(t, 1, 0, 0)
			})
		})
	}
}

// Processes that start together do not count at the same time. Each of them counts at the
// configured rate, over one connection.
func TestProcessesCountAtDifferentTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const processes, hours = 10, 2
		firsts := make(map[time.Duration]bool)
		for range processes {
			begin := time.Now()
			c := start(t, &broker{})
			pass(hours * time.Hour)
			counts := c.begun()
			first := counts[0].Sub(begin)
			firsts[first] = true
			if first > interval/4 {
				t.Errorf("the first count began after %s", first)
			}
			waits := make(map[time.Duration]bool)
			for i := range len(counts) - 1 {
				wait := counts[i+1].Sub(counts[i])
				waits[wait] = true
				if wait < interval*3/4 || wait > interval*5/4 {
					t.Errorf("a wait of %s", wait)
				}
			}
			if want := int(hours * time.Hour / interval); len(counts) < want*9/10 || len(counts) > want*11/10 {
				t.Errorf("%d counts in %d h, want about %d", len(counts), hours, want)
			}
			if len(waits) < len(counts)/2 {
				t.Errorf("%d counts have only %d different waits", len(counts), len(waits))
			}
			if c.dialed != 1 {
				t.Errorf("%d connections were opened", c.dialed)
			}
			c.end(t)
		}
		if len(firsts) < processes/2 {
			t.Errorf("%d processes begin at only %d different times", processes, len(firsts))
		}
	})
}

func TestCountIsShownForAWhileAfterFailuresAndThenAbsent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &broker{sessions: 7, fails: func(int) error { return errors.New("not now") }})
		defer c.end(t)
		pass(interval)
		c.shows(t, "absent")
		c.set(func(b *broker) { b.fails = nil })
		pass(2 * interval)
		c.shows(t, "7")

		c.set(func(b *broker) {
			b.fails = func(int) error { return errors.New("not now") }
			b.sessions = 8
			b.counts = nil
		})
		pass(3*interval - interval*5/4 - time.Second)
		c.shows(t, "7")
		pass(2 * interval)
		c.shows(t, "absent")
		pass(10 * interval)
		c.shows(t, "absent")
		failures := len(c.begun())
		if failures < 10 {
			t.Errorf("%d counts were tried", failures)
		}

		c.set(func(b *broker) { b.fails = nil })
		pass(2 * interval)
		c.shows(t, "8")
		if n := strings.Count(c.log.String(), `"level":"warn"`); n != 2 {
			t.Errorf("%d warnings, want one for each time that it began to fail:\n%s", n, c.log)
		}
		if n := strings.Count(c.log.String(), `"level":"info"`); n != 2 {
			t.Errorf("%d times it was said to work again, want 2:\n%s", n, c.log)
		}
	})
}

func TestCounterBacksOffFromABusyBroker(t *testing.T) {
	t.Parallel()
	busy := func(int) error {
		return &amqp.Error{Condition: "com.microsoft:server-busy", Description: "Error code : 50009."}
	}
	for name, test := range map[string]struct {
		interval, first time.Duration
	}{
		"short interval": {time.Second, 10 * time.Second},
		"usual interval": {interval, interval},
		"long interval":  {time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := start(t, &broker{fails: busy}, func(o *backlog.Options) { o.Interval = test.interval })
				defer c.end(t)
				pass(10 * max(test.interval, 5*time.Minute))
				counts := c.begun()
				longest := max(5*time.Minute, test.interval)
				want := test.first
				for i := range len(counts) - 1 {
					if wait := counts[i+1].Sub(counts[i]); wait < want*3/4 || wait > want*5/4 {
						t.Errorf("wait %d is %s, want about %s", i+1, wait, want)
					}
					want = min(2*want, longest)
				}
				if want != longest {
					t.Errorf("only %d counts", len(counts))
				}
				if c.dialed != 1 {
					t.Errorf("%d connections were opened", c.dialed)
				}
				c.results(t, 0, len(counts), 0)

				c.set(func(b *broker) { b.fails = nil })
				pass(2 * longest)
				c.begun()
				pass(4 * test.interval)
				if n := len(c.begun()); n < 3 {
					t.Errorf("%d counts in four intervals after the broker was busy", n)
				}
			})
		})
	}
}

// If a connection is lost between two counts, no count fails. If no connection works,
// each count fails and dials again.
func TestLostConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &broker{sessions: 3})
		defer c.end(t)
		pass(interval / 4)
		c.set(func(b *broker) {
			b.fails = func(connection int) error {
				if connection == 1 {
					return &amqp.ConnError{}
				}
				return nil
			}
			b.sessions = 4
		})
		pass(2 * interval)
		c.shows(t, "4")
		if c.dialed != 2 || c.closed != 1 {
			t.Errorf("%d connections were opened, %d closed", c.dialed, c.closed)
		}
		if c.log.Len() > 0 {
			t.Errorf("got the log %s, want none", c.log)
		}

		c.begun()
		c.set(func(b *broker) { b.fails = func(int) error { return &amqp.ConnError{} } })
		pass(5 * interval)
		counts := len(c.begun())
		if c.dialed != 2+counts-1 {
			t.Errorf("%d connections were opened for %d counts", c.dialed-2, counts)
		}
	})
}

func TestHangingCountTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &broker{hangs: true}, func(o *backlog.Options) { o.Interval = time.Second })
		defer c.end(t)
		pass(30*time.Second + 500*time.Millisecond) // The second count begins later.
		c.results(t, 0, 0, 1)
		if !strings.Contains(c.log.String(), "the count has taken too long") {
			t.Errorf("the log is %s", c.log)
		}
		if c.dialed != c.closed {
			t.Errorf("of %d connections %d are closed", c.dialed, c.closed)
		}
	})
}

func TestCounterStopsAtOnceWhileItWaitsForTheBroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &broker{hangs: true})
		pass(interval / 4)
		if len(c.begun()) != 1 {
			t.Error("no count has begun")
		}
		begin := time.Now()
		c.end(t)
		if took := time.Since(begin); took != 0 {
			t.Errorf("stopping took %s", took)
		}
		c.results(t, 0, 0, 0)
		if c.log.Len() > 0 {
			t.Errorf("got the log %s, want none", c.log)
		}
	})
}

func TestFailedDialIsCountedAndLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &broker{}, func(o *backlog.Options) {
			o.Dial = func() (backlog.Connection, error) { return nil, errDial }
		})
		defer c.end(t)
		pass(interval / 4)
		c.results(t, 0, 0, 1)
		if !strings.Contains(c.log.String(), errDial.Error()) {
			t.Errorf("the log is %s", c.log)
		}
	})
}
