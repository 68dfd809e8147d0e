package app

import (
	"context"
	"io"

	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/projector/internal/config"
)

// runCommand is the service.
type runCommand struct{}

func (*runCommand) needs() config.Part { return config.PartAll }

func (*runCommand) run(ctx context.Context, e *environment) error {
	return New(Options{Config: e.config, Projections: e.projections, Logger: e.logger}).Run(ctx)
}

// options returns the options of a command that logs to out.
func (l *line) options(out io.Writer) (Options, error) {
	logger, err := obs.NewLogger(out, l.config.Process.Log)
	if err != nil {
		return Options{}, err
	}
	return Options{Config: l.config, Projections: l.projections, Logger: logger}, nil
}
