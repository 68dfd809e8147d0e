package app

import (
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/pause"
	"github.com/penstock-cdc/penstock/projector/internal/stores"
)

// newPausing makes the switch that every process follows, and its metric.
func (p *Projector) newPausing(s *stores.Stores, pod string) *pause.Switch {
	pausing := pause.NewSwitch(pause.NewStore(pause.In(s.State), "projector", p.config.Pipeline().String()), pod, p.logger)
	obs.GaugeFunc(p.registry, "penstock_projector_paused",
		"1 while this process receives nothing because of \"projector pause\", 0 otherwise.", pausing.Value)
	return pausing
}
