package app

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

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
	p.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "penstock_publisher_paused",
		Help: "1 while publishing is paused by \"publisher pause\", 0 otherwise. Every process reports it.",
	}, pausing.Value))
	return pausing
}

// lead does the work of one term of the election, as [leader.Work] describes it. While the
// publisher is paused, lead keeps the lease and does nothing else. After each pause it
// claims a new epoch, because a command may have moved the checkpoint meanwhile.
func (w *worker) lead(ctx context.Context, leading leadership) error {
	for {
		working, release, err := w.pausing.WorkingAs(ctx, leading.Identity())
		if err != nil {
			return unlessEnded(ctx, err)
		}
		err = w.work(working, leading)
		paused := errors.Is(context.Cause(working), pause.ErrPaused)
		release()
		if err != nil || !paused || ctx.Err() != nil {
			return err
		}
		w.logger.Info().Msg("publishing stopped for the pause; the lease is kept")
	}
}
