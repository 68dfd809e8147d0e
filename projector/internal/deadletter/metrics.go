package deadletter

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics is the last good count, as a collector.
type metrics struct {
	// fresh is how long a count stands.
	fresh time.Duration

	mu       sync.Mutex
	messages int
	// at is when they were counted; zero before the first time.
	at time.Time
}

var descMessages = prometheus.NewDesc("penstock_projector_dead_letters",
	"Messages in the subscription's dead-letter queue, counted up to 250 (or 16 MiB): from there on there are at least so many. "+
		"Every process counts all of them: take the largest number. Absent if there is no count of the last three intervals (a minute at least).", nil, nil)

func newMetrics(o *Options) *metrics {
	m := &metrics{fresh: max(staleAfter*o.Interval, minFresh)}
	if o.Registerer != nil {
		o.Registerer.MustRegister(m)
	}
	return m
}

// counted records a good count that began at a time.
func (m *metrics) counted(messages int, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.messages, m.at = messages, at
}

// Describe is [prometheus.Collector]'s.
func (m *metrics) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- descMessages }

// Collect is [prometheus.Collector]'s.
func (m *metrics) Collect(values chan<- prometheus.Metric) {
	m.mu.Lock()
	messages, at := m.messages, m.at
	m.mu.Unlock()
	if !at.IsZero() && time.Since(at) <= m.fresh {
		values <- prometheus.MustNewConstMetric(descMessages, prometheus.GaugeValue, float64(messages))
	}
}
