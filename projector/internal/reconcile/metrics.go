package reconcile

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/obs"
)

// metrics are the metrics of a reconciler.
type metrics struct {
	through *prometheus.GaugeVec
	behind  *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		through: obs.GaugeVec(r, "penstock_projector_verified_through_timestamp_seconds",
			"Every event that was stored before this time is in the read models of the projection, or its aggregate is parked: the start of the last complete sweep. Every process reports the same time. Absent before the first one.", "projection"),
		behind: obs.CounterVec[string](r, "penstock_projector_reconciled_aggregates_total",
			"Aggregates that a sweep found behind the event store and folded from it: the broker lost, expired or dead-lettered their events.", "projection"),
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
