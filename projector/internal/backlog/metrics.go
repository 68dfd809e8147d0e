package backlog

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/obs"
)

// The results of a count, as values of a metric's label.
const (
	resultOK     = "ok"
	resultBusy   = "busy"
	resultFailed = "failed"
)

// metrics are the metrics of counting; see their help texts. As a collector, they report
// the last successful count.
type metrics struct {
	counts *prometheus.CounterVec
	limit  prometheus.Gauge
	// sessions is the last count, with the time of its start.
	sessions obs.Expiring[int]
}

var (
	descSessions = prometheus.NewDesc("penstock_projector_backlog_sessions",
		"Sessions of the subscription that have messages, held by some process or waiting. Every process counts all of them: take the largest number. "+
			"At backlog_sessions_limit or above, there are at least that many. Absent if there is no count of the last three intervals (a minute at least).", nil, nil)
	descAge = prometheus.NewDesc("penstock_projector_backlog_age_seconds",
		"Time since the sessions that have messages were last counted. Absent before the first time.", nil, nil)
)

// newMetrics registers the metrics with o.Registerer, unless that is nil.
func newMetrics(o *Options) *metrics {
	m := &metrics{
		counts: obs.CounterVec(o.Registerer, "penstock_projector_backlog_counts_total",
			"Attempts to count the sessions that have messages: ok, busy (the broker throttles) or failed.",
			"result", resultOK, resultBusy, resultFailed),
		limit: obs.Gauge(o.Registerer, "penstock_projector_backlog_sessions_limit",
			"Number of sessions with messages at which counting stops (PENSTOCK_BACKLOG_LIMIT)."),
		sessions: obs.Expiring[int]{After: max(staleAfter*o.Interval, minFresh)},
	}
	m.limit.Set(float64(o.Limit))
	if o.Registerer != nil {
		o.Registerer.MustRegister(m)
	}
	return m
}

// counted records a successful count. at is its start.
func (m *metrics) counted(sessions int, at time.Time) {
	m.counts.WithLabelValues(resultOK).Inc()
	m.sessions.Set(sessions, at)
}

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- descSessions
	descriptions <- descAge
}

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(values chan<- prometheus.Metric) {
	sessions, at, fresh := m.sessions.Get()
	if at.IsZero() {
		return
	}
	values <- prometheus.MustNewConstMetric(descAge, prometheus.GaugeValue, time.Since(at).Seconds())
	if fresh {
		values <- prometheus.MustNewConstMetric(descSessions, prometheus.GaugeValue, float64(sessions))
	}
}
