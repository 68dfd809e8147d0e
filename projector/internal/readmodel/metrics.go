package readmodel

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the metrics of the writer and the loader.
type metrics struct {
	writeSize     prometheus.Histogram
	writeDuration prometheus.Histogram
	stale         prometheus.Counter
	nearLimit     *prometheus.CounterVec
	// withoutDocument are the parts of views that contribute to no document.
	withoutDocument *prometheus.CounterVec
}

// newMetrics registers the metrics. With a nil registerer they are not exported.
func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		writeSize: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "penstock_projector_write_batch_size",
			Help:    "Operations in a group commit.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}),
		writeDuration: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "penstock_projector_write_duration_seconds",
			Help:    "Time of a group commit, from its start until it is durable on a majority.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
		stale: f.NewCounter(prometheus.CounterOpts{
			Name: "penstock_projector_stale_writes_total",
			Help: "Writes that matched nothing, because another writer was faster.",
		}),
		nearLimit: f.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_projector_view_documents_near_limit_total",
			Help: "Writes of view documents that have more than 80 % of a limit, by projection. Beyond the limit, aggregates are parked.",
		}, []string{"projection"}),
		withoutDocument: f.NewCounterVec(prometheus.CounterOpts{
			Name: "penstock_projector_view_parts_without_document_total",
			Help: "Changed parts of views that belong to no document, because their key is absent or null or their list is empty, by projection.",
		}, []string{"projection"}),
	}
}
