package reconcile

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the metrics of a reconciler.
type metrics struct {
	through *prometheus.GaugeVec
	behind  *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		through: promauto.With(r).NewGaugeVec(prometheus.GaugeOpts{
			Name: "penstock_projector_verified_through_timestamp_seconds",
			Help: "Every event that was stored before this time is in the read models of the projection, or its aggregate is parked: the start of the last complete sweep. Every process reports the same time. Absent before the first one.",
		}, []string{"projection"}),
		behind: promauto.With(r).NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_projector_reconciled_aggregates_total",
			Help: "Aggregates that a sweep found behind the event store and folded from it: the broker lost, expired or dead-lettered their events.",
		}, []string{"projection"}),
	}
}

// show sets the metrics from the records. It removes projections that are no longer live.
func (m *metrics) show(records []Record) {
	m.through.Reset()
	for _, record := range records {
		m.behind.WithLabelValues(record.Projection.Name)
		if !record.Through.IsZero() {
			m.through.WithLabelValues(record.Projection.Name).Set(float64(record.Through.UnixMilli()) / 1000)
		}
	}
}

func (m *metrics) folded(projection string, aggregates int64) {
	m.behind.WithLabelValues(projection).Add(float64(aggregates))
}
