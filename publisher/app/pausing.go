package app

import (
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/pause"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
)

// pauseStore holds the pause of one stream's publishers.
func pauseStore(s *stores, c config.Config) *pause.Store {
	return pause.NewStore(pause.In(s.state), "publisher", c.Stream.Name)
}

// newPausing makes the switch that every process follows, and its metric.
func (p *Publisher) newPausing(s *stores) *pause.Switch {
	pausing := pause.NewSwitch(pauseStore(s, p.config), "", p.logger)
	obs.GaugeFunc(p.registry, "penstock_publisher_paused",
		"1 while publishing is paused by \"publisher pause\", 0 otherwise. Every process reports it.", pausing.Value)
	return pausing
}
