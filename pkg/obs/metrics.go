package obs

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// MetricsHandler serves the metrics of a registry. A scraper that asks for OpenMetrics
// also gets the exemplars.
func MetricsHandler(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// The following functions make a metric and register it with r. With a nil r it is not
// exported. docs/metrics.md is made from the calls, so name and help must be constants.

// Counter makes a counter.
func Counter(r prometheus.Registerer, name, help string) prometheus.Counter {
	return promauto.With(r).NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// CounterVec makes counters that differ in one label. Those of values exist from the start:
// rate() and increase() miss the first event of a counter that appears with it.
func CounterVec[S ~string](r prometheus.Registerer, name, help, label string, values ...S) *prometheus.CounterVec {
	vec := promauto.With(r).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, value := range values {
		vec.WithLabelValues(string(value))
	}
	return vec
}

// Gauge makes a gauge.
func Gauge(r prometheus.Registerer, name, help string) prometheus.Gauge {
	return promauto.With(r).NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// GaugeVec makes gauges that differ in their labels.
func GaugeVec(r prometheus.Registerer, name, help string, labels ...string) *prometheus.GaugeVec {
	return promauto.With(r).NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// GaugeFunc makes a gauge whose value each scrape reads.
func GaugeFunc(r prometheus.Registerer, name, help string, value func() float64) {
	promauto.With(r).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}

// Histogram makes a histogram.
func Histogram(r prometheus.Registerer, name, help string, buckets ...float64) prometheus.Histogram {
	return promauto.With(r).NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}
