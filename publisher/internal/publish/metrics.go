package publish

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// result is the label of what became of an event.
type result int

const (
	resultPublished result = iota
	resultClaimCheck
	resultQuarantined
	results
)

var resultNames = [results]string{"published", "claim_check", "quarantined"}

// metrics are those of the dispatchers of a process, one after another.
type metrics struct {
	inflightEvents prometheus.Gauge
	inflightBytes  prometheus.Gauge
	published      [results]prometheus.Counter
	sendDuration   prometheus.Histogram
	batchEvents    prometheus.Histogram
	sendErrors     *prometheus.CounterVec
	throttled      prometheus.Counter
	rate           prometheus.Gauge
	degraded       prometheus.Counter
	connections    prometheus.Gauge
}

// newMetrics makes the metrics, or gives those of an earlier term. Without a
// registerer they are collected by nobody.
func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	const namespace, subsystem = "penstock", "publisher"
	var problems []error
	gauge := func(name, help string) prometheus.Gauge {
		return registered(registerer, &problems, prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: name, Help: help,
		}))
	}
	counter := func(name, help string) prometheus.Counter {
		return registered(registerer, &problems, prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: name, Help: help,
		}))
	}
	counters := func(name, help, label string) *prometheus.CounterVec {
		return registered(registerer, &problems, prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: name, Help: help,
		}, []string{label}))
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return registered(registerer, &problems, prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets,
		}))
	}
	m := &metrics{
		inflightEvents: gauge("inflight_events", "Events between the stream and their acknowledgement."),
		inflightBytes:  gauge("inflight_bytes", "Size of the events between the stream and their acknowledgement."),
		sendDuration: histogram("send_duration_seconds", "Time from a send to the broker's acceptance of it.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}),
		batchEvents: histogram("batch_events", "Events in one accepted send.",
			[]float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 4500}),
		sendErrors: counters("send_errors_total", "Sends that failed, by what that means.", "fault"),
		throttled:  counter("throttled_total", "Sends that a busy broker refused."),
		rate:       gauge("rate_limit", "Events per second that a throttled namespace is sent at most; 0 without a limit."),
		degraded:   counter("batching_degraded_total", "Times that the topic refused batches of the policy in force."),
		connections: gauge("connections",
			"Connections to the topic that are open."),
	}
	published := counters("events_published_total",
		"Events that left the stream: published whole or as a claim check, or quarantined as unpublishable.", "result")
	for i, name := range resultNames {
		m.published[i] = published.WithLabelValues(name)
	}
	return m, errors.Join(problems...)
}

// registered registers a collector, or gives the one that was before.
func registered[C prometheus.Collector](registerer prometheus.Registerer, problems *[]error, c C) C {
	if registerer == nil {
		return c
	}
	err := registerer.Register(c)
	if err == nil {
		return c
	}
	if before, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if same, ok := before.ExistingCollector.(C); ok {
			return same
		}
	}
	*problems = append(*problems, err)
	return c
}

// inflight adds to what is in flight.
func (m *metrics) inflight(events int, bytes int64) {
	m.inflightEvents.Add(float64(events))
	m.inflightBytes.Add(float64(bytes))
}
