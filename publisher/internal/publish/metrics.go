package publish

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/obs"
)

// result is the label for the outcome of an event.
type result int

const (
	resultPublished result = iota
	resultClaimCheck
	resultQuarantined
	results
)

var resultNames = [results]string{"published", "claim_check", "quarantined"}

// Metrics are the metrics of all dispatchers of a process.
type Metrics struct {
	// inflight is the dispatcher whose events are in flight; nil if none runs.
	inflight     atomic.Pointer[Dispatcher]
	published    [results]prometheus.Counter
	sendDuration prometheus.Histogram
	batchEvents  prometheus.Histogram
	sendErrors   *prometheus.CounterVec
	throttled    prometheus.Counter
	rate         prometheus.Gauge
	degraded     prometheus.Counter
	connections  prometheus.Gauge
}

// NewMetrics registers the metrics. Each label value starts at 0, so that the first fault
// is an increase. With a nil registerer the metrics are not exported.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		sendDuration: obs.Histogram(registerer, "penstock_publisher_send_duration_seconds",
			"Time from the start of a send until the broker has accepted it.", .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30),
		batchEvents: obs.Histogram(registerer, "penstock_publisher_batch_events",
			"Events in one accepted send.", 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 4500),
		sendErrors: obs.CounterVec[string](registerer, "penstock_publisher_send_errors_total",
			"Sends that failed, by fault: disconnected (the connection was lost), transient, busy (the namespace is throttled, or a part of the topic is), too_large (the messages exceed the limit of the topic), refused (the topic refuses these messages), mixed_refused (no batch of several session keys), batch_refused (no batch at all) or fatal (an operator must act).", "fault"),
		throttled: obs.Counter(registerer, "penstock_publisher_throttled_total",
			"Sends after which the publisher sent nothing for some seconds, because the broker was busy. A busy answer that affects only some session keys does not count."),
		rate: obs.Gauge(registerer, "penstock_publisher_rate_limit",
			"Largest number of events per second that are sent to a throttled namespace; 0 without a limit."),
		degraded: obs.Counter(registerer, "penstock_publisher_batching_degraded_total",
			"Times that the topic refused batches, and the publisher continued with smaller ones. PENSTOCK_BATCHING avoids the attempts."),
		connections: obs.Gauge(registerer, "penstock_publisher_connections",
			"Open connections to the topic."),
	}
	m.registerInflight(registerer)
	m.registerDelayed(registerer)
	published := obs.CounterVec[string](registerer, "penstock_publisher_events_published_total",
		"Events that the publisher tried to send and completed, by result: published, claim_check (published without the payload, because the event is too large) or quarantined, because the event could not be sent. An event that is quarantined when it is read does not count here: see penstock_publisher_quarantined_total.", "result")
	for i, name := range resultNames {
		m.published[i] = published.WithLabelValues(name)
	}
	for f := range faults {
		m.sendErrors.WithLabelValues(f.String())
	}
	return m
}

// registerInflight registers the gauges that each scrape reads from the dispatcher. A gauge
// that every event changes twice would be contended.
func (m *Metrics) registerInflight(registerer prometheus.Registerer) {
	obs.GaugeFunc(registerer, "penstock_publisher_inflight_events",
		"Events that were read and that the broker has not acknowledged yet.", func() float64 {
			events, _ := m.inFlight()
			return float64(events)
		})
	obs.GaugeFunc(registerer, "penstock_publisher_inflight_bytes",
		"Size of the events that were read and that the broker has not acknowledged yet.", func() float64 {
			_, bytes := m.inFlight()
			return float64(bytes)
		})
}

// registerDelayed registers the gauges of keys that the topic does not accept.
func (m *Metrics) registerDelayed(registerer prometheus.Registerer) {
	obs.GaugeFunc(registerer, "penstock_publisher_delayed_keys",
		"Session keys whose next event is sent again because sending it failed.", func() float64 { return float64(m.Delayed().Keys) })
	obs.GaugeFunc(registerer, "penstock_publisher_delayed_seconds",
		"How long the session key that has failed longest has failed; 0 if none fails. The checkpoint does not pass its next event.", func() float64 {
			if since := m.Delayed().Since; !since.IsZero() {
				return time.Since(since).Seconds()
			}
			return 0
		})
}

// Delayed says which session keys wait because sending their next event fails.
type Delayed struct {
	// Keys is their number; 0 if all keys go on. The other fields are about
	// the key that has failed longest.
	Keys  int
	Key   string
	Since time.Time
	// Err is the last failure.
	Err error
}

// Delayed returns the keys of the running dispatcher that wait, none if none runs.
func (m *Metrics) Delayed() Delayed {
	d := m.inflight.Load()
	if d == nil {
		return Delayed{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delayed := Delayed{Keys: d.lanes.setbacks}
	if delayed.Keys == 0 {
		return delayed
	}
	for key, ln := range d.lanes.byKey {
		if s := ln.setback; s != nil && (delayed.Since.IsZero() || s.begun.Before(delayed.Since)) {
			delayed.Key, delayed.Since, delayed.Err = key, s.begun, s.last.err
		}
	}
	return delayed
}

func (m *Metrics) inFlight() (events int, bytes int64) {
	d := m.inflight.Load()
	if d == nil {
		return 0, 0
	}
	return d.Inflight()
}
