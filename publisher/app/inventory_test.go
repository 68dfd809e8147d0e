package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

// measured has the values to measure.
type measured struct {
	mu          sync.Mutex
	records     int64
	countError  error
	runway      runway
	unclaimed   bool // there is no checkpoint
	runwayError error
	runways     int
	hangs       bool
	// dated reports whether the context of a count had a deadline.
	dated bool
}

func (w *measured) set(change func(*measured)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

func (w *measured) count(ctx context.Context, limit int64) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, dated := ctx.Deadline(); dated {
		w.dated = true
	}
	if w.hangs {
		w.mu.Unlock()
		<-ctx.Done()
		w.mu.Lock()
		return 0, ctx.Err()
	}
	return min(w.records, limit), w.countError
}

func (w *measured) measure(context.Context) (r runway, ok bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runways++
	return w.runway, !w.unclaimed, w.runwayError
}

type measuring struct {
	*measured
	t        *testing.T
	registry *prometheus.Registry
	log      *bytes.Buffer
	stop     func()
}

func start(t *testing.T, w *measured) *measuring {
	t.Helper()
	m := &measuring{measured: w, t: t, registry: prometheus.NewRegistry(), log: &bytes.Buffer{}}
	measured := &inventory{count: w.count, measure: w.measure, logger: zerolog.New(m.log)}
	m.registry.MustRegister(measured)
	m.stop = testkit.Start(t, func(ctx context.Context) error {
		measured.run(ctx)
		return nil
	})
	return m
}

// shows compares all metrics with their expected values.
func (m *measuring) shows(want string) {
	m.t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		m.t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		got = append(got, fmt.Sprint(strings.TrimPrefix(family.GetName(), "penstock_publisher_"), "=", family.GetMetric()[0].GetGauge().GetValue()))
	}
	if text := strings.Join(got, " "); text != want {
		m.t.Errorf("metrics are %q, want %q", text, want)
	}
}

func TestGaugesFollowTheMeasurements(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := start(t, &measured{records: 3, unclaimed: true})
		defer m.stop()
		m.shows("")
		testkit.Pass(inventoryInterval / 4)
		m.shows("quarantine_records=3")
		m.set(func(w *measured) { w.records = 20_000 })
		testkit.Pass(2 * inventoryInterval)
		m.shows("quarantine_records=10000")
	})
}

func TestGaugesAreAbsentWhileMeasuringFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := start(t, &measured{records: 3, unclaimed: true})
		defer m.stop()
		testkit.Pass(inventoryInterval)
		m.set(func(w *measured) { w.countError = errors.New("no primary") })
		testkit.Pass(time.Minute)
		m.shows("quarantine_records=3")
		testkit.Pass(5 * time.Minute)
		m.shows("")
		if n := strings.Count(m.log.String(), `"level":"warn"`); n != 1 {
			t.Errorf("%d warnings, want one:\n%s", n, m.log)
		}
		m.set(func(w *measured) { w.countError = nil })
		testkit.Pass(time.Minute)
		m.shows("quarantine_records=3")
	})
}

func TestRunwayIsAbsentWithoutACheckpointOrTheRight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := start(t, &measured{runway: runway{left: 90 * time.Minute, complete: true}, countError: errors.New("down")})
		defer m.stop()
		testkit.Pass(inventoryInterval)
		m.shows("oplog_complete=1 oplog_runway_seconds=5400")
		m.set(func(w *measured) { w.runway = runway{left: -time.Minute} })
		testkit.Pass(2 * inventoryInterval)
		m.shows("oplog_complete=0 oplog_runway_seconds=-60")
		m.set(func(w *measured) { w.unclaimed = true })
		testkit.Pass(5 * time.Minute)
		m.shows("")
		m.set(func(w *measured) {
			w.unclaimed, w.runwayError, w.runways = false, fmt.Errorf("%w: 13", mongox.ErrOplogHidden), 0
		})
		testkit.Pass(3*time.Hour - time.Minute)
		if m.runways != 3 || strings.Count(m.log.String(), "clusterMonitor") != 1 {
			t.Errorf("asked %d times in 3 h:\n%s", m.runways, m.log)
		}
	})
}

func TestHangingCountTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := start(t, &measured{hangs: true, unclaimed: true})
		testkit.Pass(time.Minute)
		m.shows("")
		began := time.Now()
		m.stop()
		if took := time.Since(began); took > 0 {
			t.Errorf("the end took %v", took)
		}
		if m.dated {
			t.Error("a count has a deadline: the driver retries without a pause until then")
		}
	})
}
