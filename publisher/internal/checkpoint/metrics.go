package checkpoint

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/obs"
)

// Results of a save: the values of a metric's label.
const (
	resultSaved  = "saved"
	resultFenced = "fenced"
	resultError  = "error"
)

type metrics struct {
	epoch prometheus.Gauge
	saves *prometheus.CounterVec
	// current is the running term's saver; nil between terms.
	current atomic.Pointer[Saver]
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		epoch: obs.Gauge(registerer, "penstock_publisher_epoch",
			"Epoch that this process claimed last; 0 before its first term."),
		saves: obs.CounterVec(registerer, "penstock_publisher_checkpoint_saves_total",
			"Attempts to save the checkpoint, by result: saved, fenced (a later term has claimed the checkpoint) or error.",
			"result", resultSaved, resultFenced, resultError),
	}
	obs.GaugeFunc(registerer, "penstock_publisher_checkpoint_age_seconds",
		"Time since the checkpoint was last moved, or since the term began; 0 while not leading. "+
			"It grows if saves fail, an event is not acknowledged, or the stream makes no progress, idle or not.", m.age)
	obs.GaugeFunc(registerer, "penstock_publisher_checkpoint_window_events",
		"Events that were read after the low watermark: a failover repeats at least these; 0 while not leading.", m.window)
	return m
}

func (m *metrics) age() float64 {
	s := m.current.Load()
	if s == nil {
		return 0
	}
	return time.Since(*s.moved.Load()).Seconds()
}

func (m *metrics) window() float64 {
	s := m.current.Load()
	if s == nil {
		return 0
	}
	return float64(s.watermark.Window())
}
