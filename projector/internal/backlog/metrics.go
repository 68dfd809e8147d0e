package backlog

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics report the last successful count of a counter.
type metrics struct{ counter *Counter }

var (
	descSessions = prometheus.NewDesc("penstock_projector_backlog_sessions",
		"Sessions of the subscription that have messages, held by some process or waiting. Every process counts all of them: take the largest number. "+
			"At backlog_sessions_limit or above, there are at least that many. Absent if there is no count of the last three intervals (a minute at least).", nil, nil)
	descAge = prometheus.NewDesc("penstock_projector_backlog_age_seconds",
		"Time since the sessions that have messages were last counted. Absent before the first time.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- descSessions
	descriptions <- descAge
}

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(values chan<- prometheus.Metric) {
	sessions, at, fresh := m.counter.Last()
	if at.IsZero() {
		return
	}
	values <- prometheus.MustNewConstMetric(descAge, prometheus.GaugeValue, time.Since(at).Seconds())
	if fresh {
		values <- prometheus.MustNewConstMetric(descSessions, prometheus.GaugeValue, float64(sessions))
	}
}
