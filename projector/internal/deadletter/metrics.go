package deadletter

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// reasonOther is the label of reasons that are not in [Options.Reasons]. It bounds the
// labels, because any receiver can dead-letter a message with any reason.
const reasonOther = "other"

// metrics is a collector of the last successful count.
type metrics struct {
	// counter has the last count by label.
	counter *Counter
	// reasons are the labels.
	reasons []string
}

var descMessages = prometheus.NewDesc("penstock_projector_dead_letters",
	"Messages in the subscription's dead-letter queue by reason, counted up to 250 in all (or 16 MiB): from there on there are at least that many. "+
		"Every process counts all of them: take the largest sum of one process. Absent if there is no count of the last three intervals (a minute at least).", []string{"reason"}, nil)

// label returns the label of a reason.
func (m *metrics) label(reason string) string {
	if slices.Contains(m.reasons, reason) {
		return reason
	}
	return reasonOther
}

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- descMessages }

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(values chan<- prometheus.Metric) {
	messages := m.counter.Fresh().Messages
	if messages == nil {
		return
	}
	for _, reason := range m.reasons {
		values <- prometheus.MustNewConstMetric(descMessages, prometheus.GaugeValue, float64(messages[reason]), reason)
	}
}
