package readmodel

import (
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

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
