package app

import (
	"context"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/pause"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
)

type pauseCommand struct{ pause.Request }

func (*pauseCommand) validate(c *config.Config) error { return c.MongoDB.Validate() }

func (c *pauseCommand) runOn(ctx context.Context, e *environment, s *stores) error {
	return c.Pause(ctx, e.pausable(s))
}

type resumeCommand struct{ cli.Change }

func (*resumeCommand) validate(c *config.Config) error { return c.MongoDB.Validate() }

func (c *resumeCommand) runOn(ctx context.Context, e *environment, s *stores) error {
	return e.pausable(s).Resume(ctx, c.Change)
}

// pausable describes what the commands pause and resume act on.
func (e *environment) pausable(s *stores) pause.Subject {
	return pause.Subject{
		Name: "stream " + e.options.Config.Stream.Name, Effect: "stop publishing",
		Store: pauseStore(s, e.options.Config), Out: e.stdout,
		Change: func(ctx context.Context, flags cli.Change, what string, do func(context.Context) (map[string]int64, error)) error {
			return e.change(ctx, s, flags, what, do)
		},
	}
}

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
