package deadletter_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const interval = 30 * time.Second

// broker is a dead-letter queue.
type broker struct {
	// sizes are the sizes of the messages, which have the sequence numbers 10, 20, 30, ….
	sizes []int
	// reasons are the reasons of the messages, in turn; empty for no reasons.
	reasons []string
	// pages are the numbers of messages that the peeks requested.
	pages          []int
	dialed, closed int
}

// connection can only read and close: counting needs no more.
type connection struct {
	deadletter.Queue
	*broker
}

func (b *broker) dial() (deadletter.Queue, error) {
	b.dialed++
	return &connection{broker: b}, nil
}

func (c *connection) Peek(ctx context.Context, from int64, limit int) ([]deadletter.Message, error) {
	c.pages = append(c.pages, limit)
	var page []deadletter.Message
	for i, size := range c.sizes {
		if sequence := int64(10 * (i + 1)); sequence >= from && len(page) < limit {
			message := deadletter.Message{Sequence: sequence, Body: make([]byte, size)}
			if len(c.reasons) > 0 {
				message.Reason = c.reasons[i%len(c.reasons)]
			}
			page = append(page, message)
		}
	}
	return page, ctx.Err()
}

func (c *connection) Close(context.Context) error {
	c.closed++
	return nil
}

func repeat(size, count int) []int { return slices.Repeat([]int{size}, count) }

// counting is a running counter.
type counting struct {
	*broker
	counter  *deadletter.Counter
	registry *prometheus.Registry
	log      *bytes.Buffer
	stop     func()
}

func start(t *testing.T, b *broker) *counting {
	t.Helper()
	c := &counting{broker: b, registry: prometheus.NewRegistry(), log: &bytes.Buffer{}}
	counter := deadletter.New(deadletter.Options{Dial: b.dial, Interval: interval, Reasons: []string{"expression", "TTLExpiredException"}, Registerer: c.registry, Logger: zerolog.New(c.log)})
	c.counter = counter
	stop := testkit.Start(t, counter.Run)
	c.stop = func() {
		stop()
		if b.dialed != b.closed {
			t.Errorf("%d connections were opened, %d closed", b.dialed, b.closed)
		}
	}
	return c
}

// shows expects a value of the metric; "absent" means none.
func (c *counting) shows(t *testing.T, want string) {
	t.Helper()
	families, err := c.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := "absent"
	for _, family := range families {
		if family.GetName() == "penstock_projector_dead_letters" {
			sum := 0.0
			for _, m := range family.GetMetric() {
				sum += m.GetGauge().GetValue()
			}
			got = fmt.Sprint(sum)
		}
	}
	if got != want {
		t.Errorf("penstock_projector_dead_letters is %s, want %s", got, want)
	}
}

func TestCounterReadsUpToTheLimits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sizes   []int
		shown   string
		bounded bool
	}{
		"none":           {nil, "0", false},
		"one":            {repeat(500, 1), "1", false},
		"many":           {repeat(500, 120), "120", false},
		"at the limit":   {repeat(500, 250), "250", true},
		"over the limit": {repeat(500, 400), "250", true},
		"empty bodies":   {repeat(0, 7), "7", false},
		"large messages": {repeat(1<<20, 40), "16", true},
		"huge messages":  {repeat(100<<20, 3), "1", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := start(t, &broker{sizes: test.sizes})
				defer c.stop()
				testkit.Pass(interval / 4)
				c.shows(t, test.shown)
				if bounded := c.counter.Fresh().Bounded; bounded != test.bounded {
					t.Errorf("bounded: %t", bounded)
				}
				for i, page := range c.pages {
					if len(test.sizes) > 0 && i > 0 && page > 1 && page*test.sizes[0] > 1<<20 {
						t.Errorf("page %d asks for %d messages of %d bytes", i, page, test.sizes[0])
					}
				}
				if c.pages[0] != 1 {
					t.Errorf("the first page asks for %d messages of unknown size", c.pages[0])
				}
			})
		})
	}
}

// TestCounterCountsByReason checks that unknown reasons share one label.
func TestCounterCountsByReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &broker{sizes: repeat(10, 8), reasons: []string{"expression", "", "by hand", "expression"}})
		defer c.stop()
		testkit.Pass(interval)
		want := "# HELP penstock_projector_dead_letters Messages in the subscription's dead-letter queue by reason, counted up to 250 in all (or 16 MiB): from there on there are at least that many. Every process counts all of them: take the largest sum of one process. Absent if there is no count of the last three intervals (a minute at least).\n" +
			"# TYPE penstock_projector_dead_letters gauge\n" +
			"penstock_projector_dead_letters{reason=\"TTLExpiredException\"} 0\n" +
			"penstock_projector_dead_letters{reason=\"expression\"} 4\n" +
			"penstock_projector_dead_letters{reason=\"other\"} 4\n"
		if err := testutil.GatherAndCompare(c.registry, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	})
}
