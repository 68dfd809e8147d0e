package readmodel

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/projector/internal/model"
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
	return &metrics{
		writeSize: obs.Histogram(r, "penstock_projector_write_batch_size", "Operations in a group commit.", prometheus.ExponentialBuckets(1, 2, 11)...),
		writeDuration: obs.Histogram(r, "penstock_projector_write_duration_seconds",
			"Time of a group commit, from its start until it is durable on a majority.",
			.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30),
		stale: obs.Counter(r, "penstock_projector_stale_writes_total", "Writes that matched nothing, because another writer was faster."),
		nearLimit: obs.CounterVec[string](r, "penstock_projector_view_documents_near_limit_total",
			"Writes of view documents that have more than 80 % of a limit, by projection. Beyond the limit, aggregates are parked.", "projection"),
		withoutDocument: obs.CounterVec[string](r, "penstock_projector_view_parts_without_document_total",
			"Changed parts of views that belong to no document, because their key is absent or null or their list is empty, by projection.", "projection"),
	}
}

// nearLimit is the share of a limit from which on a view document counts as near it.
const nearLimit = 0.8

// reportFull reports the written documents of a view that are near a limit. Beyond it, their
// next parts are parked.
func (w *Writer) reportFull(v *viewTransaction, documents map[string]*viewChange) {
	for key, c := range documents {
		share := max(v.view.Fullness(c.next), float64(len(c.next))/maxDocument)
		if share < nearLimit {
			continue
		}
		w.metrics.nearLimit.WithLabelValues(v.unit.Projection).Inc()
		parts, _ := c.next.Lookup(model.FieldParts).Int64OK()
		w.nearLimit.Warn(&w.logger).Str("projection", v.unit.Projection).Int64("generation", v.unit.Generation).Str("document", key).
			Int64("parts", parts).Int("bytes", len(c.next)).Int("percentOfLimit", int(100*share)).
			Msg("view document near its limit; beyond it, aggregates are parked")
	}
}
