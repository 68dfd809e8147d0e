package deadletter

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// reasonOther is the label of reasons that are not in [Options.Reasons]. It bounds the
// labels, because any receiver can dead-letter a message with any reason.
const reasonOther = "other"

// metrics is a collector of the last successful count.
type metrics struct {
	// fresh is how long a count is reported.
	fresh time.Duration
	// reasons are the labels.
	reasons []string

	mu sync.Mutex
	// messages is the number of messages by label.
	messages map[string]int
	// at is the start of that count; zero before the first one.
	at time.Time
}

var descMessages = prometheus.NewDesc("penstock_projector_dead_letters",
	"Messages in the subscription's dead-letter queue by reason, counted up to 250 in all (or 16 MiB): from there on there are at least that many. "+
		"Every process counts all of them: take the largest sum of one process. Absent if there is no count of the last three intervals (a minute at least).", []string{"reason"}, nil)

func newMetrics(o *Options) *metrics {
	m := &metrics{fresh: max(staleAfter*o.Interval, minFresh), reasons: append(slices.Clone(o.Reasons), reasonOther)}
	if o.Registerer != nil {
		o.Registerer.MustRegister(m)
	}
	return m
}

// label returns the label of a reason.
func (m *metrics) label(reason string) string {
	if slices.Contains(m.reasons, reason) {
		return reason
	}
	return reasonOther
}

// counted records a successful count, by label. at is its start.
func (m *metrics) counted(messages map[string]int, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.messages, m.at = messages, at
}

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- descMessages }

// last returns the last count; nil if it is stale.
func (m *metrics) last() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at.IsZero() || time.Since(m.at) > m.fresh {
		return nil
	}
	return m.messages
}

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(values chan<- prometheus.Metric) {
	messages := m.last()
	if messages == nil {
		return
	}
	for _, reason := range m.reasons {
		values <- prometheus.MustNewConstMetric(descMessages, prometheus.GaugeValue, float64(messages[reason]), reason)
	}
}
