package catalog

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/obs"
)

// metrics report the catalog. The labels are the names of its projections.
type metrics struct {
	live, building *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	return &metrics{
		live: obs.GaugeVec(registerer, "penstock_projector_generation_live",
			"Number of the live generation of a projection, 0 before the first one is live. All processes report the same.", "projection"),
		building: obs.GaugeVec(registerer, "penstock_projector_generation_building",
			"Number of the generation of a projection that is in the state (building, catching up, verifying, promoting, failed); absent if none is built. All processes report the same.", "projection", "state"),
	}
}

// show sets the metrics to the catalog.
func (m *metrics) show(entries map[string]*Entry) {
	m.live.Reset()
	m.building.Reset()
	for name, e := range entries {
		if e.RetiredAt != nil {
			continue
		}
		number := 0.0
		if e.Live != nil {
			number = float64(e.Live.Generation)
		}
		m.live.WithLabelValues(name).Set(number)
		if b := e.Building; b != nil {
			m.building.WithLabelValues(name, string(b.State)).Set(float64(b.Generation))
		}
	}
}
